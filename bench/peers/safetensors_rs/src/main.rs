//! The Rust crate `safetensors`, driven the way Espalier's benchmarks drive Espalier.
//!
//! One subcommand per measurement; each prints one JSON object with every sample in nanoseconds,
//! taken inside the process from the monotonic clock. README.md says what each of them times.

mod arguments;
mod check;
mod generate;
mod load;
mod make;
mod open;
mod parse;
mod read;
mod report;
mod save;

use arguments::Arguments;
use std::error::Error;
use std::process::ExitCode;

/// A subcommand's outcome: the error's text is for people, and ends the process.
type Outcome = Result<(), Box<dyn Error>>;

const USAGE: &str = "usage:
  safetensors_rs open FILE [--repeat N]
  safetensors_rs check FILE
  safetensors_rs parse FILE [--repeat N]
  safetensors_rs read FILE [--threads T] [--repeat N]
  safetensors_rs load FILE [--threads T] [--prefix NAME] [--first | --begin N --end N] [--repeat N]
  safetensors_rs resave FILE --out FILE [--repeat N]
  safetensors_rs save FILE --bytes N --tensors K (--fresh | --overwrite) [--repeat N]
  safetensors_rs make FILE --tensors K --elements E [--nested-names]";

fn run(words: impl Iterator<Item = String>) -> Outcome {
    let mut arguments = Arguments::parse(words)?;
    match arguments.command() {
        "open" => open::run(&mut arguments),
        "check" => check::run(&mut arguments),
        "parse" => parse::run(&mut arguments),
        "read" => read::run(&mut arguments),
        "load" => load::run(&mut arguments),
        "resave" => load::resave(&mut arguments),
        "save" => save::run(&mut arguments),
        "make" => make::run(&mut arguments),
        other => Err(format!("no such command: '{other}'").into()),
    }
}

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("safetensors_rs: {error}\n{USAGE}");
            ExitCode::FAILURE
        }
    }
}
