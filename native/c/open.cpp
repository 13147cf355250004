// Opening files: from disk, from memory, and from functions of the program.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "c/handles.h"

#include "espalier/source.h"

namespace espalier::c {
namespace {

// 0 is the default; what is beyond the type of a limit is no limit.
template <class Limit>
void take_limit(std::uint64_t given, Limit& limit) {
  if (given != 0) {
    limit = static_cast<Limit>(std::min<std::uint64_t>(given, std::numeric_limits<Limit>::max()));
  }
}

Result<Limits> limits_of(const espalier_limits* given) {
  const auto taken = take(given);
  if (!taken) return propagate(taken);
  Limits limits;
  take_limit(taken->index_bytes, limits.index_bytes);
  take_limit(taken->nodes, limits.nodes);
  take_limit(taken->depth, limits.depth);
  take_limit(taken->path_bytes, limits.path_bytes);
  take_limit(taken->text_bytes, limits.text_bytes);
  take_limit(taken->rank, limits.rank);
  take_limit(taken->bigint_bytes, limits.bigint_bytes);
  take_limit(taken->files, limits.files);
  take_limit(taken->decoded_bytes, limits.decoded_bytes);
  take_limit(taken->made_bytes, limits.made_bytes);
  take_limit(taken->pickle_bytes, limits.pickle_bytes);
  take_limit(taken->foreign_header_bytes, limits.foreign_header_bytes);
  take_limit(taken->zip_directory_bytes, limits.zip_directory_bytes);
  take_limit(taken->gguf_header_bytes, limits.gguf_header_bytes);
  return limits;
}

// A file that a function of the program reads.
class CallbackSource : public Source {
 public:
  CallbackSource(const espalier_source& given, std::shared_ptr<const void> keeper)
      : given_(given), keeper_(std::move(keeper)) {}

  std::uint64_t size() const override { return given_.bytes; }
  bool is_remote() const override { return given_.is_remote != 0; }
  Result<ByteSpan> read(const Extent& extent, MutableByteSpan scratch) const override {
    const auto out = scratch.first(static_cast<std::size_t>(extent.length));
    const int status = given_.read(given_.context, extent.offset, out.data(), out.size());
    if (status == 0) return ByteSpan(out);
    return fail(ErrorCode::kIoError,
                "the program's function to read returned " + std::to_string(status), extent.offset);
  }

 private:
  espalier_source given_;
  std::shared_ptr<const void> keeper_;
};

// Takes the source over: `release` is called whatever happens.
Result<std::shared_ptr<const Source>> source_of(const espalier_source* given) {
  const auto taken = take(given);
  // A newer program's struct has these members in the same place.
  const bool has_release = given->size >= sizeof *given && given->release != nullptr;
  std::shared_ptr<const void> keeper;
  if (has_release) keeper = std::shared_ptr<void>(given->context, given->release);
  if (!taken) return propagate(taken);
  if (taken->data != nullptr) {
    if (taken->bytes > std::numeric_limits<std::size_t>::max()) {
      return fail(ErrorCode::kInvalidArgument, "a source in memory is larger than memory");
    }
    const ByteSpan bytes(static_cast<const std::byte*>(taken->data),
                         static_cast<std::size_t>(taken->bytes));
    return memory_source(bytes, std::move(keeper));
  }
  if (taken->read == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "a source has neither `data` nor `read`");
  }
  return std::make_shared<CallbackSource>(*taken, std::move(keeper));
}

}  // namespace

Result<OpenFileOptions> options_of(const espalier_open_options* given) {
  const auto taken = take(given);
  if (!taken) return propagate(taken);
  const auto limits = limits_of(taken->limits);
  if (!limits) return propagate(limits);
  OpenFileOptions options;
  options.access = taken->no_mmap != 0 ? Access::kRead : Access::kMapped;
  options.limits = *limits;
  options.threads = threads_of(taken->threads, taken->run, taken->run_context);
  if (taken->allocate != nullptr) {
    options.memory = [allocate = taken->allocate, deallocate = taken->deallocate,
                      context = taken->memory_context](std::size_t bytes, std::size_t alignment) {
      void* memory = allocate(context, bytes, alignment);
      return std::shared_ptr<void>(memory, [=](void* unused) {
        if (unused != nullptr && deallocate != nullptr) {
          deallocate(context, unused, bytes, alignment);
        }
      });
    };
  }
  options.nest = taken->nest != 0;
  if (taken->name != nullptr) options.name = taken->name;
  options.sibling_threads = std::max(taken->sibling_threads, 1u);
  if (taken->sibling != nullptr) {
    options.sibling = [find = taken->sibling, context = taken->sibling_context](
                          const std::string& name) -> Result<std::shared_ptr<const Source>> {
      espalier_source found = {};
      found.size = sizeof found;
      const int status = find(context, name.c_str(), &found);
      if (status == 0) return source_of(&found);
      if (status == ESPALIER_FILE_MISSING) {
        return fail(ErrorCode::kFileMissing, "no file of that name is there");
      }
      return fail(ErrorCode::kIoError,
                  "the program's function for further files returned " + std::to_string(status));
    };
  }
  return options;
}

}  // namespace espalier::c

using namespace espalier;
using espalier::c::Arguments;
using espalier::c::guarded;

espalier_status espalier_open(const char* path, const espalier_open_options* options,
                              espalier_file** out, espalier_error** error) {
  return guarded(error, Arguments().need(path).result(out), [&]() -> Result<void> {
    const auto how = c::options_of(options);
    if (!how) return propagate(how);
    auto file = CheckpointFile::open(path, *how);
    if (!file) return propagate(file);
    *out = new espalier_file{std::move(*file)};
    return {};
  });
}

espalier_status espalier_open_source(const espalier_source* source,
                                     const espalier_open_options* options, espalier_file** out,
                                     espalier_error** error) {
  return guarded(error, Arguments().need(source), [&]() -> Result<void> {
    auto opened = c::source_of(source);
    if (auto ok = Arguments().result(out).check(); !ok) return ok;
    if (!opened) return propagate(opened);
    const auto how = c::options_of(options);
    if (!how) return propagate(how);
    auto file = CheckpointFile::open(std::move(*opened), *how);
    if (!file) return propagate(file);
    *out = new espalier_file{std::move(*file)};
    return {};
  });
}

void espalier_close(espalier_file* file) { delete file; }
