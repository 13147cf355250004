// Opens and validates a file and calls every accessor of the result.
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto file = fuzz::copy_input(data, size);
  if (const auto checkpoint = fuzz::open_any(file)) {
    fuzz::visit(*checkpoint);
  } else {
    fuzz::require(!checkpoint.error().message.empty(), "an error without a message");
    fuzz::require(
        checkpoint.error().offset == Error::kNoOffset || checkpoint.error().offset <= size,
        "an error's offset is outside the file");
  }
  return 0;
}
