// The C++ reader safetensors-cpp behind a command line, for bench/hostile.py: opens a file as the
// example of that project does, lists the tensors and touches both ends of each one's bytes.
#include <cstdint>
#include <cstdio>
#include <string>

#define SAFETENSORS_CPP_IMPLEMENTATION
#include "safetensors.hh"

int main(int argc, char** argv) {
  if (argc != 3 || std::string(argv[1]) != "check") {
    std::fprintf(stderr, "usage: safetensors_cpp check FILE\n");
    return 2;
  }
  safetensors::safetensors_t file;
  std::string warnings, error;
  if (!safetensors::mmap_from_file(argv[2], &file, &warnings, &error) ||
      !safetensors::validate_data_offsets(file, error)) {
    std::fprintf(stderr, "safetensors_cpp: %.300s\n", error.c_str());
    return 1;
  }
  std::uint64_t touched = 0;
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    safetensors::tensor_t tensor;
    if (!file.tensors.at(i, &tensor)) return 1;
    touched += file.tensors.keys()[i].size() + tensor.shape.size();
    // The bytes that the example prints: the shape says how many, the offset where.
    const std::size_t bytes =
        safetensors::get_shape_size(tensor) * safetensors::get_dtype_bytes(tensor.dtype);
    if (bytes == 0) continue;
    const std::uint8_t* const data = file.databuffer_addr + tensor.data_offsets[0];
    touched += data[0] + data[bytes - 1];
  }
  std::printf("{\"command\":\"check\",\"tensors\":%zu,\"touched\":%llu}\n", file.tensors.size(),
              static_cast<unsigned long long>(touched));
}
