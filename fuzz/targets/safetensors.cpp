// Opens a safetensors file and reads every tensor of it.
#include "fuzz.h"
#include "support/memory_file.h"

#include "espalier/foreign/safetensors_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto file = fuzz::copy_input(data, size);
  SafetensorsOpener opener({.file_size = size});
  if (!opener.feed({0, 0, size}, file)) return 0;
  const auto checkpoint = opener.finish();
  if (!checkpoint) return 0;
  fuzz::visit(*checkpoint);
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < checkpoint->tensor_count(); ++i) {
    const auto tensor = testing::read_tensor(file, checkpoint->tensor(i));
    fuzz::require(tensor.has_value(), "a tensor of a file without hashes cannot be read");
    bytes += tensor->size();
  }
  // The specification forbids holes and overlaps.
  fuzz::require(checkpoint->catalog().data_begin() + bytes == size, "tensors do not fill the file");
  return 0;
}
