// Saves a tensor that never is in memory as a whole: its elements come from standard input.
//
//   producer | streamed_save FILE ROWS COLUMNS     float32, little-endian, row by row
#include <cstdio>
#include <cstdlib>

#include "espalier/espalier.h"

using namespace espalier;

namespace {

Result<void> read_input(MutableByteSpan out) {
  if (std::fread(out.data(), 1, out.size(), stdin) == out.size()) return {};
  return fail(ErrorCode::kIoError, "the input ends before the last row");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fputs("usage: streamed_save FILE ROWS COLUMNS\n", stderr), 2;
  const std::uint64_t rows = std::strtoull(argv[2], nullptr, 10);
  const std::uint64_t columns = std::strtoull(argv[3], nullptr, 10);

  const Value state =
      Value::dict({{"activations", Value::tensor({.dtype = DType::kF32,
                                                  .shape = {rows, columns},
                                                  .data = TensorData::streamed(read_input)})},
                   {"layer", Value::integer(12)}});
  const auto saved = save(argv[1], state, {.memory_bytes = 64 << 20});
  if (saved) return 0;
  std::fprintf(stderr, "streamed_save: %s\n", saved.error().describe().c_str());
  return 1;
}
