//! The binary `alluvium`. All code is in the library crate, where tests and fuzz targets can call it.

fn main() -> std::process::ExitCode {
    alluvium_cli::run()
}
