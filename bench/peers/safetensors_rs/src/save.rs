//! `save`: write tensors that are in memory to a file with `serialize_to_file`.

use crate::arguments::Arguments;
use crate::generate::{values, weight_name};
use crate::report::{elapsed, Report};
use crate::Outcome;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensorError};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::time::Instant;

const ELEMENT: usize = size_of::<f32>();

pub fn run(arguments: &mut Arguments) -> Outcome {
    let bytes = arguments.number("--bytes")?;
    let tensors = arguments.number("--tensors")?;
    let repeat = arguments.number_or("--repeat", 1)?;
    let fresh = arguments.flag("--fresh");
    let overwrite = arguments.flag("--overwrite");
    arguments.finish()?;
    if fresh == overwrite {
        return Err("save needs --fresh or --overwrite".into());
    }
    if bytes % ELEMENT != 0 || bytes / ELEMENT < tensors {
        return Err("--bytes must be a multiple of 4, with 4 or more for each tensor".into());
    }

    let contents = contents(bytes / ELEMENT, tensors);
    let views = views(&contents)?;
    let path = arguments.file();
    if overwrite {
        save(&views, path)?;
    }
    let mut save_ns = Vec::new();
    for _ in 0..repeat {
        if fresh && path.try_exists()? {
            fs::remove_file(path)?;
        }
        let start = Instant::now();
        save(&views, path)?;
        save_ns.push(elapsed(start));
    }
    Report::new("save", path)
        .with("mode", json!(if fresh { "fresh" } else { "overwrite" }))
        .with("tensors", json!(tensors))
        .with("bytes", json!(bytes))
        .with("file_bytes", json!(fs::metadata(path)?.len()))
        .with("save_ns", json!(save_ns))
        .print();
    Ok(())
}

/// The tensors' contents: `elements` F32 values, spread over the tensors as evenly as can be.
fn contents(elements: usize, tensors: usize) -> Vec<Vec<u8>> {
    let (each, more) = (elements / tensors, elements % tensors);
    (0..tensors)
        .map(|index| values(index as u64, each + usize::from(index < more)))
        .collect()
}

type Named<'data> = (String, TensorView<'data>);

fn views(contents: &[Vec<u8>]) -> Result<Vec<Named<'_>>, SafeTensorError> {
    let views = contents.iter().enumerate().map(|(index, bytes)| {
        let view = TensorView::new(Dtype::F32, vec![bytes.len() / ELEMENT], bytes)?;
        Ok((weight_name(index), view))
    });
    views.collect()
}

fn save(views: &[Named], path: &Path) -> Result<(), SafeTensorError> {
    let tensors = views.iter().map(|(name, view)| (name, view));
    safetensors::serialize_to_file(tensors, None, path)
}
