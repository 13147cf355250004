#include "espalier/source.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "files/open/source_below.h"
#include "files/os/out_of_memory.h"
#include "files/os/posix.h"
#include "files/os/regular_file.h"

namespace espalier {
namespace {

Result<void> check_extent(const Extent& extent, std::uint64_t size) {
  if (extent.file != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "a single file has no file number " + std::to_string(extent.file));
  }
  if (!range_fits(extent.offset, extent.length, size)) {
    return fail(ErrorCode::kTruncated, "the file ends before the requested bytes", extent.offset);
  }
  return {};
}

Result<void> check_length(const Extent& extent, MutableByteSpan out) {
  if (out.size() == extent.length) return {};
  return fail(ErrorCode::kInvalidArgument, "the buffer is not as long as the extent");
}

/// Linux prefetches at most its read-ahead size per call; this is the usual size.
template <class Call>
void for_each_piece(const Extent& extent, const Call& call) {
  constexpr std::uint64_t kPiece = std::uint64_t{128} << 10;
  for (std::uint64_t done = 0; done < extent.length; done += kPiece) {
    call(extent.offset + done, std::min(kPiece, extent.length - done));
  }
}

/// Reads `extent` to `out`. It lies within the size that the file had when it was opened.
Result<void> read_fully(const FileDescriptor& file, const Extent& extent, MutableByteSpan out) {
  while (!out.empty()) {
    const std::uint64_t offset = extent.offset + (extent.length - out.size());
    const ssize_t n = uninterrupted(
        [&] { return ::pread(file.get(), out.data(), out.size(), static_cast<off_t>(offset)); });
    if (n < 0) return fail_with_errno(errno, "read the file", offset);
    if (n == 0) {
      return fail(ErrorCode::kFileChanged,
                  "the file became shorter while it was read; read it again when its writer is "
                  "done",
                  offset);
    }
    out = out.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

void advise_pattern(const FileDescriptor& file, ReadPattern pattern) {
  ::posix_fadvise(file.get(), 0, 0,
                  pattern == ReadPattern::kScattered ? POSIX_FADV_RANDOM : POSIX_FADV_NORMAL);
}

class ReadSource : public Source {
 public:
  explicit ReadSource(RegularFile file) : file_(std::move(file)) {
    expect(ReadPattern::kScattered);
  }

  std::uint64_t size() const override { return file_.size(); }

  Result<ByteSpan> read(const Extent& extent, MutableByteSpan scratch) const override {
    if (scratch.size() > extent.length) {
      scratch = scratch.first(static_cast<std::size_t>(extent.length));
    }
    if (auto ok = copy(extent, scratch); !ok) return propagate(ok);
    return ByteSpan(scratch);
  }

  Result<void> copy(const Extent& extent, MutableByteSpan out) const override {
    if (auto ok = check_extent(extent, size()); !ok) return ok;
    if (auto ok = check_length(extent, out); !ok) return ok;
    return read_fully(file_.file, extent, out);
  }

  bool may_have_changed() const override { return WriteState::of(file_.file) != file_.opened; }

  std::optional<int> descriptor(std::uint32_t file) const override {
    return file == 0 ? std::optional(file_.file.get()) : std::nullopt;
  }

  void expect(ReadPattern pattern) const final { advise_pattern(file_.file, pattern); }

  void prefetch(const Extent& extent) const override {
    if (!check_extent(extent, size())) return;
    for_each_piece(extent, [&](std::uint64_t offset, std::uint64_t length) {
      ::posix_fadvise(file_.file.get(), static_cast<off_t>(offset), static_cast<off_t>(length),
                      POSIX_FADV_WILLNEED);
    });
  }

 private:
  RegularFile file_;
};

class MappedSource : public Source {
 public:
  explicit MappedSource(RegularFile file) : file_(std::move(file)) {
    expect(ReadPattern::kScattered);
  }
  ~MappedSource() override {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }

  /// Maps the file, which must not be empty. Returns 0 or the errno. Call once. A separate step, so
  /// that no allocation can fail after the mapping exists.
  int map() {
    const auto length = narrow_size(file_.size());
    if (!length) return EOVERFLOW;
    void* memory = ::mmap(nullptr, *length, PROT_READ, MAP_SHARED, file_.file.get(), 0);
    if (memory == MAP_FAILED) return errno;
    bytes_ = {static_cast<const std::byte*>(memory), *length};
    return 0;
  }

  std::uint64_t size() const override { return bytes_.size(); }

  Result<ByteSpan> read(const Extent& extent, MutableByteSpan) const override {
    if (auto ok = check_extent(extent, bytes_.size()); !ok) return propagate(ok);
    return bytes_.subspan(static_cast<std::size_t>(extent.offset),
                          static_cast<std::size_t>(extent.length));
  }

  Result<void> copy(const Extent& extent, MutableByteSpan out) const override {
    if (auto ok = check_extent(extent, bytes_.size()); !ok) return ok;
    if (auto ok = check_length(extent, out); !ok) return ok;
    return read_fully(file_.file, extent, out);
  }

  std::optional<ByteSpan> mapping(std::uint32_t file) const override {
    return file == 0 ? std::optional(bytes_) : std::nullopt;
  }

  bool may_have_changed() const override { return WriteState::of(file_.file) != file_.opened; }

  std::optional<int> descriptor(std::uint32_t file) const override {
    return file == 0 ? std::optional(file_.file.get()) : std::nullopt;
  }

  void expect(ReadPattern pattern) const final { advise_pattern(file_.file, pattern); }

  void prefetch(const Extent& extent) const override {
    if (!check_extent(extent, bytes_.size()) || is_cached(extent)) return;
    for_each_piece(extent, [&](std::uint64_t offset, std::uint64_t length) {
      advise({0, offset, length}, MADV_WILLNEED);
    });
  }

  void populate(const Extent& extent) const override {
    if (!check_extent(extent, bytes_.size())) return;
    // Otherwise page faults would read the surrounding pages too.
    prefetch(extent);
    advise(extent, kPopulate);
  }

 private:
#ifdef MADV_POPULATE_READ
  static constexpr int kPopulate = MADV_POPULATE_READ;
#else
  static constexpr int kPopulate = MADV_WILLNEED;
#endif

  /// Whether the page in the middle is in memory. The first and last pages may be there because of
  /// a neighbour, and checking all pages takes too long.
  bool is_cached(const Extent& extent) const {
    unsigned char state = 0;
    const std::uint64_t middle = page_begin(extent.offset + extent.length / 2);
    return middle < bytes_.size() && ::mincore(address(middle), 1, &state) == 0 && (state & 1) != 0;
  }

  void advise(const Extent& extent, int advice) const {
    if (extent.length == 0) return;
    const std::uint64_t begin = page_begin(extent.offset);
    ::madvise(address(begin), static_cast<std::size_t>(extent.offset + extent.length - begin),
              advice);
  }

  static std::uint64_t page_begin(std::uint64_t offset) {
    static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return offset / page * page;
  }

  std::byte* address(std::uint64_t offset) const {
    return const_cast<std::byte*>(bytes_.data()) + offset;
  }

  RegularFile file_;
  ByteSpan bytes_;
};

class MemorySource : public Source {
 public:
  MemorySource(ByteSpan bytes, std::shared_ptr<const void> keeper)
      : bytes_(bytes), keeper_(std::move(keeper)) {}

  std::uint64_t size() const override { return bytes_.size(); }

  Result<ByteSpan> read(const Extent& extent, MutableByteSpan) const override {
    if (auto ok = check_extent(extent, bytes_.size()); !ok) return propagate(ok);
    return bytes_.subspan(static_cast<std::size_t>(extent.offset),
                          static_cast<std::size_t>(extent.length));
  }

  std::optional<ByteSpan> mapping(std::uint32_t file) const override {
    return file == 0 ? std::optional(bytes_) : std::nullopt;
  }

 private:
  ByteSpan bytes_;
  std::shared_ptr<const void> keeper_;
};

class JoinedSource : public Source {
 public:
  explicit JoinedSource(std::vector<std::shared_ptr<const Source>> files)
      : files_(std::move(files)) {}

  std::uint64_t size() const override { return files_.front()->size(); }

  Result<ByteSpan> read(const Extent& extent, MutableByteSpan scratch) const override {
    const Source* file = find(extent.file);
    if (file == nullptr) return missing();
    return file->read({0, extent.offset, extent.length}, scratch);
  }

  Result<void> copy(const Extent& extent, MutableByteSpan out) const override {
    const Source* file = find(extent.file);
    if (file == nullptr) return missing();
    return file->copy({0, extent.offset, extent.length}, out);
  }

  std::optional<ByteSpan> mapping(std::uint32_t number) const override {
    const Source* file = find(number);
    return file != nullptr ? file->mapping() : std::nullopt;
  }

  bool may_have_changed() const override {
    return std::any_of(files_.begin(), files_.end(), [](const auto& file) {
      return file != nullptr && file->may_have_changed();
    });
  }

  std::optional<int> descriptor(std::uint32_t number) const override {
    const Source* file = find(number);
    return file != nullptr ? file->descriptor(0) : std::nullopt;
  }

  void expect(ReadPattern pattern) const override {
    for (const auto& file : files_) {
      if (file != nullptr) file->expect(pattern);
    }
  }

  void announce(const Extent& all) const override {
    const Source* file = find(all.file);
    if (file != nullptr) file->announce({0, all.offset, all.length});
  }

  bool is_remote() const override {
    return std::any_of(files_.begin(), files_.end(),
                       [](const auto& file) { return file != nullptr && file->is_remote(); });
  }

  void prefetch(const Extent& extent) const override {
    const Source* file = find(extent.file);
    if (file != nullptr) file->prefetch({0, extent.offset, extent.length});
  }

  void populate(const Extent& extent) const override {
    const Source* file = find(extent.file);
    if (file != nullptr) file->populate({0, extent.offset, extent.length});
  }

 private:
  const Source* find(std::uint32_t number) const {
    return number < files_.size() ? files_[number].get() : nullptr;
  }

  static tl::unexpected<Error> missing() {
    return fail(ErrorCode::kFileMissing, "a file of the checkpoint could not be opened");
  }

  std::vector<std::shared_ptr<const Source>> files_;
};

}  // namespace

Result<void> Source::copy(const Extent& extent, MutableByteSpan out) const {
  if (auto ok = check_length(extent, out); !ok) return ok;
  const auto bytes = read(extent, out);
  if (!bytes) return propagate(bytes);
  if (auto ok = check_answer(extent, *bytes); !ok) return ok;
  if (bytes->data() != out.data()) std::copy(bytes->begin(), bytes->end(), out.begin());
  return {};
}

std::shared_ptr<const Source> memory_source(ByteSpan bytes, std::shared_ptr<const void> keeper) {
  return std::make_shared<const MemorySource>(bytes, std::move(keeper));
}

std::shared_ptr<const Source> memory_source(std::vector<std::byte> bytes) {
  auto keeper = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const ByteSpan view(*keeper);
  return memory_source(view, std::move(keeper));
}

std::shared_ptr<const Source> join_sources(std::vector<std::shared_ptr<const Source>> files) {
  return std::make_shared<const JoinedSource>(std::move(files));
}

namespace {

Result<std::shared_ptr<const Source>> source_of(Result<RegularFile> opened, Access access) {
  if (!opened) return propagate(opened);
  // An empty file cannot be mapped and needs no mapping.
  if (access == Access::kMapped && opened->size() > 0) {
    auto source = std::make_shared<MappedSource>(std::move(*opened));
    if (const int error = source->map(); error != 0) {
      if (error != ENOMEM) return fail_with_errno(error, "map the file");
      return fail(ErrorCode::kOutOfMemory,
                  "cannot map the file: there is not enough address space (see `ulimit -v`); "
                  "Access::kRead reads it instead");
    }
    return source;
  }
  return std::make_shared<const ReadSource>(std::move(*opened));
}

}  // namespace

Result<std::shared_ptr<const Source>> open_source(const FilePath& path, Access access) try {
  return source_of(open_regular_file(path), access);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<std::shared_ptr<const Source>> open_source_below(const std::filesystem::path& folder,
                                                        std::string_view name, Access access) try {
  return source_of(open_regular_file_below(folder, name), access);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier
