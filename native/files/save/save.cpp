#include "espalier/save.h"

#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "espalier/checkpoint_file.h"
#include "espalier/format/header.h"
#include "espalier/write/writer.h"
#include "files/delta/find_references.h"
#include "files/delta/rewrite_references.h"
#include "files/os/about_file.h"
#include "files/os/out_of_memory.h"
#include "files/save/save_format.h"
#include "files/save/write_file.h"

namespace espalier {
namespace {

class EspalierContents : public FileContents {
 public:
  EspalierContents(Writer writer, unsigned threads)
      : writer_(std::move(writer)), total_bytes_(writer_.file_length()), scratches_(threads) {}

  std::uint64_t reserved_bytes() const override {
    return writer_.is_compressed() ? 0 : total_bytes_;
  }
  std::uint64_t total_bytes() const override { return total_bytes_; }
  std::uint64_t worker_bytes() const override { return writer_.scratch_bytes(); }
  std::size_t pieces() const override { return writer_.pieces().size(); }
  std::uint64_t piece_bytes(std::size_t i) const override { return writer_.pieces()[i].length; }
  bool is_streamed(std::size_t i) const override { return writer_.pieces()[i].is_streamed; }
  Result<void> read(unsigned worker, std::size_t i) override {
    return writer_.read(i, scratches_[worker]);
  }
  std::optional<StoredBytes> stored(std::size_t i) override {
    // Chunks of different lengths do not begin at the same places in the blocks of both files.
    if (writer_.is_compressed()) return std::nullopt;
    const auto piece = writer_.carry(i);
    if (!piece) return std::nullopt;
    return StoredBytes{piece->source, piece->extent};
  }
  Result<ByteSpan> make(unsigned worker, std::size_t i) override {
    return writer_.make(i, scratches_[worker]);
  }
  bool is_placed_in_order() const override { return writer_.is_compressed(); }
  std::uint64_t place(std::size_t i) override { return writer_.place(i).offset; }
  Result<void> write_front(Sink& sink) override {
    auto front = writer_.finish();
    if (!front) return propagate(front);
    if (auto ok = sink.write(kHeaderBytes, front->index); !ok) return ok;
    return sink.write(0, front->header);
  }

 private:
  Writer writer_;
  const std::uint64_t total_bytes_;  // A compressed file gets shorter.
  std::vector<Writer::Scratch> scratches_;
};

// `target` is a path or a sink.
template <class Target>
Result<void> save_referring(Target& target, const Value& state, const References& references,
                            const SaveOptions& options, Carry carry) {
  auto writer = Writer::plan(state, options.metadata,
                             {.compression_level = options.compression_level,
                              .carry = options.carry ? carry : Carry::kNothing,
                              .limits = options.limits,
                              .references = &references});
  if (!writer) return propagate(writer);
  EspalierContents contents(std::move(*writer), thread_count(options.threads));
  return write_file(target, contents, options);
}

template <class Target>
Result<void> save_to(Target& target, const Value& state, const SaveOptions& options,
                     Carry carry) try {
  if (options.check) {
    if (auto ok = options.check(state, options); !ok) return ok;
  }
  auto references = find_references(state, options.bases,
                                    {.patches = options.patches,
                                     .most_of_full = options.most_of_full,
                                     .compression_level = options.compression_level,
                                     .threads = options.threads,
                                     .progress = options.progress,
                                     .cancel = options.cancel});
  if (!references) return propagate(references);
  return save_referring(target, state, *references, options, carry);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<void> save_at(const FilePath& path, const Value& state, const SaveOptions& options,
                     Carry carry) {
  return about_file(path.text(), [&]() -> Result<void> {
    const std::filesystem::path target = path;
    if (options.check_ending) {
      if (auto ok = check_format_ending(target, SaveFormat::kEspalier); !ok) return ok;
    }
    if (auto ok = check_is_no_base(target, options.bases); !ok) return ok;
    return save_to(target, state, options, carry);
  });
}

}  // namespace

Result<void> save(const FilePath& path, const Value& state, const SaveOptions& options) {
  return save_at(path, state, options, Carry::kRaw);
}

Result<void> save(const FilePath& path, const Contents& contents, const SaveOptions& options) try {
  SaveOptions as_there = options;
  as_there.metadata = contents.metadata;
  as_there.compression_level = contents.compression_level;
  return save_at(path, contents.state, as_there, Carry::kStored);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<void> write_with_references(const std::filesystem::path& path, const Value& state,
                                   const References& references, const SaveOptions& options) {
  return about_file(path.native(), [&]() -> Result<void> {
    if (options.check_ending) {
      if (auto ok = check_format_ending(path, SaveFormat::kEspalier); !ok) return ok;
    }
    return save_referring(path, state, references, options, Carry::kStored);
  });
}

Result<std::vector<std::byte>> write_with_references(const Value& state,
                                                     const References& references,
                                                     const SaveOptions& options) try {
  MemorySink sink;
  if (auto ok = save_referring(sink, state, references, options, Carry::kStored); !ok) {
    return propagate(ok);
  }
  return sink.take();
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<void> save(Sink& sink, const Value& state, const SaveOptions& options) {
  return save_to(sink, state, options, Carry::kRaw);
}

Result<std::vector<std::byte>> save_to_memory(const Value& state, const SaveOptions& options) try {
  MemorySink sink;
  if (auto ok = save(sink, state, options); !ok) return propagate(ok);
  return sink.take();
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier
