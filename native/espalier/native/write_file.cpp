#include "espalier/native/write_file.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "espalier/base/counted.h"
#include "espalier/native/async_targets.h"
#include "espalier/native/file_sink.h"
#include "espalier/native/ordered_section.h"
#include "espalier/native/parallel.h"

namespace espalier {
namespace {

Result<unsigned> choose_threads(const FileContents& contents, const SaveOptions& options) {
  const unsigned threads = thread_count(options.threads);
  const std::uint64_t needed = contents.worker_bytes();
  if (options.memory_bytes == 0 || needed == 0) return threads;
  if (options.memory_bytes < needed) {
    return fail(ErrorCode::kInvalidArgument,
                "saving takes " + counted(needed, "byte") + " of buffers for one thread, and " +
                    "SaveOptions::memory_bytes is " + std::to_string(options.memory_bytes) +
                    "; raise it, or compress at a lower level");
  }
  return static_cast<unsigned>(std::min<std::uint64_t>(threads, options.memory_bytes / needed));
}

bool is_cancelled(const SaveOptions& options) {
  return options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed);
}

tl::unexpected<Error> cancelled() {
  return fail(ErrorCode::kCancelled, "the save was cancelled; nothing was saved");
}

tl::unexpected<Error> aborted() {
  return fail(ErrorCode::kIncomplete, "the save was aborted");  // for an error before this one
}

class Filling {
 public:
  Filling(Sink& sink, FileContents& contents, const SaveOptions& options)
      : sink_(sink), contents_(contents), options_(options) {
    // Only streamed pieces wait for their turn to be read.
    for (std::size_t i = 0, turn = 0; i < contents.pieces(); ++i) {
      if (!contents.is_streamed(i)) continue;
      if (reading_turns_.empty()) reading_turns_.resize(contents.pieces());
      reading_turns_[i] = turn++;
    }
  }

  Result<void> fill(unsigned worker, std::size_t i) {
    if (is_cancelled(options_)) return cancelled();
    // A task that fails gives up all its turns, or later tasks would wait for ever.
    std::optional<OrderedSection::Turn> placing;
    std::optional<OrderedSection::Turn> reading;
    if (contents_.is_placed_in_order()) placing.emplace(places_, i);
    if (contents_.is_streamed(i)) {
      reading.emplace(reads_, reading_turns_[i]);
      Result<void> read = {};
      const bool is_next = reading->take([&] {
        read = contents_.read(worker, i);
        return read.has_value();
      });
      if (!read) return read;
      if (!is_next) return aborted();
    }
    const auto stored = contents_.stored(i);
    // A piece is small enough to stay in the CPU cache from hashing to writing.
    Result<ByteSpan> bytes;
    if (!stored) bytes = contents_.make(worker, i);
    if (!bytes) return propagate(bytes);
    std::uint64_t offset = 0;
    const auto place = [&] {
      offset = contents_.place(i);
      return true;
    };
    if (!placing) {
      place();
    } else if (!placing->take(place)) {
      return aborted();
    }
    const bool is_copied = stored && sink_.copy(offset, *stored->source, stored->extent);
    if (stored && !is_copied) bytes = contents_.make(worker, i);
    if (!bytes) return propagate(bytes);
    if (!is_copied) {
      if (auto ok = sink_.write(offset, *bytes); !ok) return ok;
    }
    if (options_.progress) {
      const std::lock_guard lock(mutex_);
      done_ += contents_.piece_bytes(i);
      options_.progress(done_, contents_.total_bytes());
    }
    return {};
  }

 private:
  Sink& sink_;
  FileContents& contents_;
  const SaveOptions& options_;
  OrderedSection reads_;
  OrderedSection places_;
  std::vector<std::size_t> reading_turns_;  // by piece, if any is streamed
  std::mutex mutex_;
  std::uint64_t done_ = 0;
};

Result<void> fill_and_commit(Sink& sink, FileContents& contents, unsigned threads,
                             const SaveOptions& options) {
  if (auto ok = sink.reserve(contents.reserved_bytes()); !ok) return ok;
  Filling filling(sink, contents, options);
  auto written = parallel_for(contents.pieces(), threads, [&](unsigned worker, std::size_t i) {
    return filling.fill(worker, i);
  });
  if (!written) return written;
  if (is_cancelled(options)) return cancelled();
  if (auto ok = contents.write_front(sink); !ok) return ok;
  if (options.progress) options.progress(contents.total_bytes(), contents.total_bytes());
  return sink.commit();
}

}  // namespace

Result<void> write_file(const std::filesystem::path& path, FileContents& contents,
                        const SaveOptions& options) {
  const auto threads = choose_threads(contents, options);
  if (!threads) return propagate(threads);
  auto sink = FileSink::create(
      path, {.sync = options.sync, .replace = options.replace, .ops = options.ops});
  if (!sink) return propagate(sink);
  if (auto ok = wait_for_async_saves(sink->target(), *options.ops); !ok) return ok;
  return fill_and_commit(*sink, contents, *threads, options);
}

Result<void> write_file(Sink& sink, FileContents& contents, const SaveOptions& options) {
  const auto threads = choose_threads(contents, options);
  if (!threads) return propagate(threads);
  return fill_and_commit(sink, contents, *threads, options);
}

}  // namespace espalier
