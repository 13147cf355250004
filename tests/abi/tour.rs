// A Rust program that reads a checkpoint through the C interface. Arguments: a checkpoint, a key path.
use std::env;
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_void};
use std::process::exit;
use std::ptr;

#[repr(C)]
struct File {
    _opaque: [u8; 0],
}
#[repr(C)]
struct Error {
    _opaque: [u8; 0],
}
#[repr(C)]
#[derive(Clone, Copy)]
struct Text {
    data: *const c_char,
    size: usize,
}
#[repr(C)]
struct TensorInfo {
    size: usize,
    dtype: u32,
    is_placeholder: u32,
    rank: u32,
    number: u32,
    shape: *const u64,
    elements: u64,
    bytes: u64,
    stored_bytes: u64,
    has_hash: u32,
    block_elements: u32,
    block_bytes: u32,
    block_name: Text,
    hash: [u8; 16],
}

#[link(name = "espalier")]
extern "C" {
    fn espalier_open(path: *const c_char, options: *const c_void, out: *mut *mut File, error: *mut *mut Error) -> i32;
    fn espalier_close(file: *mut File);
    fn espalier_state(file: *const File) -> u32;
    fn espalier_at(file: *const File, from: u32, path: *const c_char, out: *mut u32, error: *mut *mut Error) -> i32;
    fn espalier_get_tensor(file: *const File, node: u32, info: *mut TensorInfo, error: *mut *mut Error) -> i32;
    fn espalier_read(
        file: *const File,
        node: u32,
        slices: *const c_void,
        slice_count: usize,
        out: *mut c_void,
        out_bytes: usize,
        error: *mut *mut Error,
    ) -> i32;
    fn espalier_dtype_name(dtype: u32) -> *const c_char;
    fn espalier_error_text(error: *const Error) -> *const c_char;
    fn espalier_error_free(error: *mut Error);
}

fn check(status: i32, error: *mut Error) {
    if status != 0 {
        unsafe {
            eprintln!("{}", CStr::from_ptr(espalier_error_text(error)).to_string_lossy());
            espalier_error_free(error);
        }
        exit(status);
    }
}

fn main() {
    let arguments: Vec<CString> = env::args().skip(1).map(|a| CString::new(a).unwrap()).collect();
    let mut error = ptr::null_mut();
    let mut file = ptr::null_mut();
    let mut node = 0;
    unsafe {
        check(espalier_open(arguments[0].as_ptr(), ptr::null(), &mut file, &mut error), error);
        check(espalier_at(file, espalier_state(file), arguments[1].as_ptr(), &mut node, &mut error), error);
        let mut info: TensorInfo = std::mem::zeroed();
        info.size = std::mem::size_of::<TensorInfo>();
        check(espalier_get_tensor(file, node, &mut info, &mut error), error);
        let mut elements = vec![0f32; info.elements as usize];
        let out = elements.as_mut_ptr() as *mut c_void;
        check(espalier_read(file, node, ptr::null(), 0, out, info.bytes as usize, &mut error), error);
        let shape = std::slice::from_raw_parts(info.shape, info.rank as usize);
        let dtype = CStr::from_ptr(espalier_dtype_name(info.dtype)).to_str().unwrap();
        println!("{} {:?} {}", dtype, shape, elements.iter().sum::<f32>());
        espalier_close(file);
    }
}
