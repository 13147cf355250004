// What the command line does when a mapped file is cut while it is read. Each check runs in a
// process of its own, which ends.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/in_child.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/terminal/interrupt.h"
#include "cli/terminal/mapped_files.h"
#include "espalier/save.h"

namespace espalier::cli {
namespace {

using testing::in_child;
using testing::TemporaryFolder;

constexpr int kOpenFailed = 100;
constexpr int kLivedOn = 101;

std::filesystem::path save_sample(const TemporaryFolder& folder) {
  const std::filesystem::path path = folder.path() / "run.espalier";
  const std::vector<float> elements(1 << 20);
  Value state = Value::dict();
  state.add("w", Value::tensor(borrow(elements), {1 << 20}));
  REQUIRE(save(path, state));
  return path;
}

// Sends standard error to a file, as its text is read afterwards.
void redirect_errors(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(fd, STDERR_FILENO);
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void cut(const std::filesystem::path& path) {
  if (::truncate(path.c_str(), 4096) != 0) ::_exit(kOpenFailed);
}

std::string message_about(const std::filesystem::path& path) {
  return "espalier: " + path.string() +
         ": the file changed while it was read; try --no-mmap, which also tells whether the disk "
         "fails (code file_changed)\n";
}

TEST_CASE("mapped files: a file that is cut while it is read is an error with an exit code") {
  for (const unsigned threads : {1u, 4u}) {
    const TemporaryFolder folder;
    const auto path = save_sample(folder);
    const int code = in_child([&] {
      redirect_errors(folder.path() / "errors");
      const auto file = open_mapped(path, {.threads = threads});
      if (!file) return kOpenFailed;
      cut(path);
      (void)file->verify();
      return kLivedOn;
    });
    CHECK(code == 4);
    // One line, however many threads have lost a page.
    CHECK(text_of(folder.path() / "errors") == message_about(path));
  }
}

TEST_CASE("mapped files: the message is about the file that was cut") {
  const TemporaryFolder folder;
  const auto path = save_sample(folder);
  const auto other = folder.path() / "other\x1b.espalier";
  std::filesystem::copy(path, other);
  const int code = in_child([&] {
    redirect_errors(folder.path() / "errors");
    const auto file = open_mapped(other, {});
    const auto whole = open_mapped(path, {});
    if (!file || !whole) return kOpenFailed;
    cut(other);
    if (!whole->verify()) return kOpenFailed;
    (void)file->verify();
    return kLivedOn;
  });
  CHECK(code == 4);
  CHECK(text_of(folder.path() / "errors") == message_about(folder.path() / "other\\x1b.espalier"));
}

TEST_CASE("mapped files: a save from a file that is cut leaves nothing behind") {
  const TemporaryFolder folder;
  const auto path = save_sample(folder);
  for (const bool replace : {false, true}) {
    const auto target = folder.path() / "out.espalier";
    const int code = in_child([&] {
      redirect_errors(folder.path() / "errors");
      std::filesystem::copy_file(path, folder.path() / "source",
                                 std::filesystem::copy_options::overwrite_existing);
      const auto file = open_mapped(folder.path() / "source", {});
      if (!file) return kOpenFailed;
      const ByteSpan mapping = *file->source().mapping();
      Tensor tensor;
      tensor.dtype = DType::kU8;
      tensor.shape = {4096};
      tensor.data = TensorData::produced([&](std::uint64_t, MutableByteSpan out) -> Result<void> {
        cut(folder.path() / "source");
        std::copy_n(mapping.end() - static_cast<std::ptrdiff_t>(out.size()), out.size(),
                    out.begin());
        return {};
      });
      InterruptibleOps ops;
      (void)save(target, Value::tensor(std::move(tensor)), {.replace = replace, .ops = &ops});
      return kLivedOn;
    });
    CHECK(code == 4);
    std::vector<std::string> left;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      left.push_back(entry.path().filename());
    }
    std::sort(left.begin(), left.end());
    CHECK(left == std::vector<std::string>{"errors", "run.espalier", "source"});
  }
}

TEST_CASE("mapped files: a page of another mapping is not ours") {
  const TemporaryFolder folder;
  const auto path = save_sample(folder);
  const int code = in_child([&] {
    const auto file = open_mapped(path, {});
    const auto other = folder.path() / "other";
    std::filesystem::copy(path, other);
    const int fd = ::open(other.c_str(), O_RDONLY);
    const auto* bytes =
        static_cast<const volatile char*>(::mmap(nullptr, 1 << 20, PROT_READ, MAP_SHARED, fd, 0));
    cut(other);
    return bytes[1 << 19] == 0 ? kLivedOn : kOpenFailed;
  });
  // The signal has ended it.
  CHECK(code == -1);
}

}  // namespace
}  // namespace espalier::cli
