//! The arguments of `shell`.

use clap::Args;

/// Read commands, one a line, and run them on one store
#[derive(Debug, Args)]
#[command(after_help = "\
Each line is a command without the word alluvium, with quotes as in a Unix shell: put greeting 'hello there'. Options given to
`shell` hold for every line; a line may add others, but not --db. Tab completes commands. `help` lists them, `exit` or Ctrl-D ends.
Lines that begin with # are comments.

The store is open only while a command runs, so others may use it in between. From a pipe or a file, the shell stops at the first
command that fails, with its exit code, and commands cannot read standard input. A `get` of an absent key is no failure here: it says
so on standard error.

Examples:
  alluvium --db /tmp/store shell
  printf 'put a 1\\nscan\\n' | alluvium --db /tmp/store shell")]
pub struct Shell {
    /// Go on after a command that fails
    #[arg(long)]
    pub keep_going: bool,
}
