//! The binary `alluvium`; everything is in the library beside it, where tests and fuzz targets reach it.

fn main() -> std::process::ExitCode {
    alluvium_cli::run()
}
