// Opens a file on disk mapped and read: the verdict and the bytes must be the same.
#include <algorithm>
#include <string>

#include "fuzz.h"
#include <sys/mman.h>
#include <unistd.h>

#include "espalier/checkpoint_file.h"

namespace espalier::fuzz {
namespace {

// A file without a name, in memory.
class MemoryFile {
 public:
  explicit MemoryFile(ByteSpan bytes) : descriptor_(::memfd_create("input", MFD_CLOEXEC)) {
    require(descriptor_ >= 0, "memfd_create() fails");
    require(::write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
            "a file in memory cannot be written");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace
}  // namespace espalier::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto input = fuzz::copy_input(data, size);
  const fuzz::MemoryFile file(input);
  const auto mapped = CheckpointFile::open(file.path(), {.access = Access::kMapped, .threads = 1});
  const auto read = CheckpointFile::open(file.path(), {.access = Access::kRead, .threads = 1});
  fuzz::require(mapped.has_value() == read.has_value(), "mapping changes whether a file opens");
  if (!mapped) {
    fuzz::require(mapped.error() == read.error(), "mapping changes the error");
    return 0;
  }
  for (std::uint32_t i = 0; i < mapped->checkpoint().tensor_count(); ++i) {
    const TensorRef tensor = mapped->checkpoint().tensor(i);
    const auto a = mapped->view(tensor);
    const auto b = read->view(read->checkpoint().tensor(i));
    fuzz::require(a.has_value() == b.has_value(), "mapping changes whether a tensor can be read");
    if (a) {
      fuzz::require(std::ranges::equal(a->bytes(), b->bytes()), "mapping changes a tensor");
    } else {
      fuzz::require(a.error().code == b.error().code, "mapping changes a tensor's error");
    }
  }
  const auto a = mapped->verify();
  const auto b = read->verify();
  fuzz::require(a && b && a->error_count == b->error_count, "mapping changes what verify finds");
  return 0;
}
