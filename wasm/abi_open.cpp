// The part of abi.h that opens files.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "abi.h"
#include "failure.h"
#include "opening_machine.h"
#include "tree_handle.h"

namespace espalier::abi {
namespace {

static_assert(sizeof(Extent) == 24 && offsetof(Extent, length) == 16);
static_assert(sizeof(WantedFile) == 16 && offsetof(WantedFile, name) == 8);

// Not operator new, which traps without memory: a large index must be refused with an error.
ArenaAllocator allocator() {
  return {[](std::size_t size) { return std::malloc(size); },
          [](void* memory, std::size_t) { std::free(memory); }};
}

}  // namespace

class Opening {
 public:
  explicit Opening(const OpenOptions& options) : machine(make_opening_machine(options)) {}
  std::unique_ptr<OpeningMachine> machine;
};

Opening* espalier_open(std::uint64_t file_size, std::uint32_t index_bytes, std::uint32_t nest,
                       const char* name, std::uint32_t name_length) {
  OpenOptions options{.file_size = file_size,
                      .allocator = allocator(),
                      .nest = nest != 0,
                      .name = {name, name_length},
                      .is_remote = true};
  if (index_bytes != 0) {
    Limits& limits = options.limits;
    limits.index_bytes = std::min<std::uint64_t>(limits.index_bytes, index_bytes);
  }
  return new Opening(options);
}

std::uint32_t espalier_open_needs(Opening* opening, Extent* out, std::uint32_t capacity) {
  const auto needs = opening->machine->needs();
  for (std::uint32_t i = 0; i < std::min<std::size_t>(capacity, needs.size()); ++i) {
    out[i] = extent_of(needs[i]);
  }
  return static_cast<std::uint32_t>(needs.size());
}

std::uint32_t espalier_open_wants(Opening* opening, WantedFile* out, std::uint32_t capacity) {
  const auto wants = opening->machine->wants();
  for (std::uint32_t i = 0; i < std::min<std::size_t>(capacity, wants.size()); ++i) {
    const espalier::WantedFile& file = wants[i];
    out[i] = {file.number, has_allowed_name(file) ? 1u : 0u, text_of(file.name)};
  }
  return static_cast<std::uint32_t>(wants.size());
}

Status espalier_open_answer(Opening* opening, std::uint32_t file, std::uint64_t size) {
  return status_of(opening->machine->answer(file, size));
}

Status espalier_open_refuse(Opening* opening, std::uint32_t file, std::uint32_t is_missing,
                            const char* message, std::uint32_t length) {
  std::string name;
  for (const espalier::WantedFile& wanted : opening->machine->wants()) {
    if (wanted.number == file) name = wanted.name;
  }
  return status_of(opening->machine->answer(
      file, tl::unexpected<Error>({is_missing != 0 ? ErrorCode::kFileMissing : ErrorCode::kIoError,
                                   Error::kNoOffset,
                                   {},
                                   std::string(message, length),
                                   std::move(name)})));
}

Status espalier_open_feed(Opening* opening, std::uint32_t file, std::uint64_t offset,
                          const std::byte* bytes, std::uint32_t length) {
  return status_of(opening->machine->feed({file, offset, length}, {bytes, length}));
}

namespace {

// Counts and sizes become JavaScript numbers, which are exact up to here.
constexpr std::uint64_t kLargestNumber = (std::uint64_t{1} << 53) - 1;

// kLimitExceeded for a tensor whose shape or size is beyond that. The functions below return shapes
// and sizes, so they must be exact for every file that opens. Only placeholders and shapes with an
// axis of 0 can be that large.
Result<void> check_numbers(const Checkpoint& checkpoint) {
  for (std::uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    const TensorRef tensor = checkpoint.tensor(i);
    const auto shape = tensor.shape();
    if (tensor.elements() <= kLargestNumber && tensor.bytes() <= kLargestNumber &&
        std::all_of(shape.begin(), shape.end(), [](auto axis) { return axis <= kLargestNumber; })) {
      continue;
    }
    return fail(ErrorCode::kLimitExceeded,
                "the shape or size of a tensor is beyond 2^53 - 1, which JavaScript numbers cannot "
                "represent exactly; use the command line for this file",
                Error::kNoOffset, tensor_path(tensor));
  }
  return {};
}

}  // namespace

Tree* espalier_open_finish(Opening* opening) {
  auto checkpoint = opening->machine->finish();
  if (!checkpoint) return set_failure(std::move(checkpoint.error())), nullptr;
  if (auto checked = check_numbers(*checkpoint); !checked) {
    return set_failure(std::move(checked.error())), nullptr;
  }
  return new Tree(std::move(*checkpoint));
}

void espalier_open_free(Opening* opening) { delete opening; }

}  // namespace espalier::abi
