//! `check`: the work of a program on an untrusted file. It opens the file, lists the tensors and
//! touches the first and last byte of each.

use crate::arguments::Arguments;
use crate::open::map;
use crate::report::Report;
use crate::Outcome;
use safetensors::SafeTensors;
use serde_json::json;

pub fn run(arguments: &mut Arguments) -> Outcome {
    arguments.finish()?;
    let bytes = map(arguments.file())?;
    let file = SafeTensors::deserialize(&bytes)?;
    Report::new("check", arguments.file())
        .with("tensors", json!(file.len()))
        .with("touched", json!(touch(&file)))
        .print();
    Ok(())
}

fn touch(file: &SafeTensors) -> u64 {
    file.iter().fold(0, |sum: u64, (name, tensor)| {
        let ends = [tensor.data().first(), tensor.data().last()];
        let ends: u64 = ends
            .into_iter()
            .flatten()
            .map(|&byte| u64::from(byte))
            .sum();
        sum.wrapping_add((name.len() + tensor.shape().len()) as u64 + ends)
    })
}
