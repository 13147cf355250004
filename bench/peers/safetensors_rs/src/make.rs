//! `make`: write the input of `open`, `parse` and `read`: a file of many small tensors.
//!
//! The crate's own `Metadata` checks and prints the header, in the crate's own order of tensors. Only
//! the file around it is written here, because `serialize_to_file` refuses headers above 100 MB.

use crate::arguments::Arguments;
use crate::generate::{training_name, values, weight_name};
use crate::report::Report;
use crate::Outcome;
use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{Dtype, SafeTensorError};
use serde_json::json;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};

const ALIGNMENT: usize = 8;

pub fn run(arguments: &mut Arguments) -> Outcome {
    let tensors = arguments.number("--tensors")?;
    let elements = arguments.number("--elements")?;
    let nested = arguments.flag("--nested-names");
    arguments.finish()?;
    let name = if nested { training_name } else { weight_name };
    let metadata = metadata((0..tensors).map(name).collect(), elements)?;
    let mut header = serde_json::to_vec(&metadata)?;
    header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');

    let path = arguments.file();
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(&header)?;
    for index in 0..tensors {
        file.write_all(&values(index as u64, elements))?;
    }
    file.into_inner()?.sync_all()?;
    Report::new("make", path)
        .with("tensors", json!(tensors))
        .with("header_bytes", json!(header.len()))
        .with("file_bytes", json!(fs::metadata(path)?.len()))
        .print();
    Ok(())
}

fn metadata(mut names: Vec<String>, elements: usize) -> Result<Metadata, SafeTensorError> {
    names.sort();
    let bytes = size_of::<f32>() * elements;
    let tensors = names.into_iter().enumerate().map(|(index, name)| {
        let info = TensorInfo {
            dtype: Dtype::F32,
            shape: vec![elements],
            data_offsets: (bytes * index, bytes * (index + 1)),
        };
        (name, info)
    });
    let strings = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    Metadata::new(Some(strings), tensors.collect())
}
