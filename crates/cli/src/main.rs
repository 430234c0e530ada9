//! `truecount`; see the library of this package.

fn main() -> std::process::ExitCode {
    truecount_cli::main()
}
