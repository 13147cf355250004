// Verifies a file and reads all of it: both must find the same damage.
#include "espalier/read/verify.h"

#include <set>
#include <string>

#include "fuzz.h"
#include "support/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto file = fuzz::copy_input(data, size);
  const auto checkpoint = fuzz::open_any(file);
  if (!checkpoint || !checkpoint->catalog().has_hashes()) return 0;

  Verify verify(*checkpoint);
  fuzz::require(verify.needs().empty() || verify.finish().error().code == ErrorCode::kIncomplete,
                "verifying ends before it has begun");
  for (const Extent& extent : std::vector<Extent>(verify.needs().begin(), verify.needs().end())) {
    fuzz::require(extent.offset <= size && extent.length <= size - extent.offset,
                  "verifying asks for bytes past the end");
    fuzz::require(verify
                      .feed(extent, ByteSpan(file).subspan(static_cast<std::size_t>(extent.offset),
                                                           static_cast<std::size_t>(extent.length)))
                      .has_value(),
                  "verifying refuses what it asked for");
  }
  const auto report = verify.finish();
  fuzz::require(report.has_value(), "verifying does not come to an end");
  fuzz::require(report->errors.size() <= report->error_count, "more errors than were counted");
  std::set<std::string> damaged;
  for (const Error& error : report->errors) {
    fuzz::require(error.offset == Error::kNoOffset || error.offset < size,
                  "an error's offset is outside the file");
    if (error.code == ErrorCode::kChunkCorrupt || error.code == ErrorCode::kBaseMismatch)
      damaged.insert(error.path);
  }
  if (report->errors.size() != report->error_count) return 0;
  for (std::uint32_t i = 0; i < checkpoint->tensor_count(); ++i) {
    const TensorRef tensor = checkpoint->tensor(i);
    if (tensor.is_placeholder()) continue;
    fuzz::require(
        testing::read_tensor(file, tensor).has_value() != damaged.contains(tensor_path(tensor)),
        "verifying and reading disagree");
  }
  return 0;
}
