//! `parse`: what `open` times, for headers above the 100 MB at which the crate refuses to read.
//!
//! `SafeTensors::deserialize` enforces that limit before anything else, and no option lifts it. The
//! crate's own `tensor::Metadata` can be parsed without it, and this is what happens here, with the
//! same steps around it: the header's length, UTF-8, the JSON, the check of every tensor's offsets,
//! shape and size, and the check that the tensors fill the file. One step is missing: the crate runs
//! its loop over the tensors' offsets a second time after parsing, and that function is private.

use crate::arguments::Arguments;
use crate::open::map;
use crate::report::{elapsed, Report};
use crate::Outcome;
use safetensors::tensor::Metadata;
use serde_json::json;
use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

const LENGTH_BYTES: usize = 8;

pub fn run(arguments: &mut Arguments) -> Outcome {
    let repeat = arguments.number_or("--repeat", 1)?;
    arguments.finish()?;
    let (mut parse_ns, mut close_ns) = (Vec::new(), Vec::new());
    let (mut header_bytes, mut tensors) = (0, 0);
    for _ in 0..repeat {
        let start = Instant::now();
        let bytes = map(arguments.file())?;
        let (length, metadata) = parse(&bytes)?;
        let metadata = black_box(metadata);
        parse_ns.push(elapsed(start));
        header_bytes = length;
        tensors = metadata.tensors().len();

        let start = Instant::now();
        drop(metadata);
        drop(bytes);
        close_ns.push(elapsed(start));
    }
    Report::new("parse", arguments.file())
        .with("tensors", json!(tensors))
        .with("header_bytes", json!(header_bytes))
        .with("parse_ns", json!(parse_ns))
        .with("close_ns", json!(close_ns))
        .print();
    Ok(())
}

fn parse(bytes: &[u8]) -> Result<(usize, Metadata), Box<dyn Error>> {
    let length = bytes.first_chunk().ok_or("no header length")?;
    let length = usize::try_from(u64::from_le_bytes(*length))?;
    let end = length.checked_add(LENGTH_BYTES).ok_or("header too long")?;
    let header = bytes.get(LENGTH_BYTES..end).ok_or("header cut short")?;
    let metadata: Metadata = serde_json::from_str(std::str::from_utf8(header)?)?;
    if end.checked_add(metadata.data_len()) != Some(bytes.len()) {
        return Err("the tensors do not fill the file".into());
    }
    Ok((length, metadata))
}
