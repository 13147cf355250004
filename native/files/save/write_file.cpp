#include "files/save/write_file.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "espalier/base/counted.h"
#include "espalier/file_sink.h"
#include "files/os/file_ops.h"
#include "files/os/ordered_section.h"
#include "files/os/parallel.h"
#include "files/save/async_targets.h"

namespace espalier {
namespace {

Result<Threads> choose_threads(const FileContents& contents, const SaveOptions& options) {
  const std::uint64_t needed = contents.worker_bytes();
  if (options.memory_bytes == 0 || needed == 0) return options.threads;
  if (options.memory_bytes < needed) {
    return fail(ErrorCode::kInvalidArgument,
                "saving takes " + counted(needed, "byte") + " of buffers for one thread, and " +
                    "SaveOptions::memory_bytes is " + std::to_string(options.memory_bytes) +
                    "; raise it, or compress at a lower level");
  }
  const auto most = static_cast<unsigned>(
      std::min<std::uint64_t>(thread_count(options.threads), options.memory_bytes / needed));
  return Threads(most, options.threads.run);
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

// Lets the file share storage with others: returns which pieces need not be written. Neighbours in
// both files are shared at once, because the time goes by calls.
Result<std::vector<std::uint8_t>> share(Sink& sink, FileContents& contents,
                                        const SaveOptions& options) {
  std::vector<std::uint8_t> is_shared(contents.pieces(), 0);
  for (std::size_t begin = 0, end = 0; begin < is_shared.size(); begin = end) {
    auto run = contents.stored(end++);
    if (!run) continue;
    if (is_cancelled(options)) return cancelled();
    const std::uint64_t offset = contents.place(begin);
    for (; end < is_shared.size(); ++end) {
      const auto next = contents.stored(end);
      if (!next || next->source != run->source || next->extent.file != run->extent.file ||
          next->extent.offset != run->extent.offset + run->extent.length ||
          contents.place(end) != offset + run->extent.length) {
        break;
      }
      run->extent.length += next->extent.length;
    }
    const auto shared = sink.share(offset, *run->source, run->extent);
    if (!shared) return propagate(shared);
    if (!*shared) continue;
    std::fill(is_shared.begin() + static_cast<std::ptrdiff_t>(begin),
              is_shared.begin() + static_cast<std::ptrdiff_t>(end), 1);
  }
  return is_shared;
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
    if (const auto stored = contents_.stored(i)) {
      const auto copied = sink_.copy(contents_.place(i), *stored->source, stored->extent);
      if (!copied) return propagate(copied);
      if (*copied) {
        done(i);
        return {};
      }
    }
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
    // A piece is small enough to stay in the CPU cache from hashing to writing.
    const auto bytes = contents_.make(worker, i);
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
    if (auto ok = sink_.write(offset, *bytes); !ok) return ok;
    done(i);
    return {};
  }

  void done(std::size_t i) {
    if (!options_.progress) return;
    const std::lock_guard lock(mutex_);
    done_ += contents_.piece_bytes(i);
    options_.progress(done_, contents_.total_bytes());
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

Result<void> fill_and_commit(Sink& sink, FileContents& contents, const Threads& threads,
                             const SaveOptions& options) {
  // Before room is reserved, because what is shared takes none.
  const auto is_shared = share(sink, contents, options);
  if (!is_shared) return propagate(is_shared);
  if (auto ok = sink.reserve(contents.reserved_bytes()); !ok) return ok;
  Filling filling(sink, contents, options);
  auto written = parallel_for(contents.pieces(), threads, [&](unsigned worker, std::size_t i) {
    if ((*is_shared)[i] == 0) return filling.fill(worker, i);
    filling.done(i);
    return Result<void>();
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
  if (auto ok = wait_for_async_saves(sink->target(), ops_or_system(options.ops)); !ok) return ok;
  return fill_and_commit(*sink, contents, *threads, options);
}

Result<void> write_file(Sink& sink, FileContents& contents, const SaveOptions& options) {
  const auto threads = choose_threads(contents, options);
  if (!threads) return propagate(threads);
  return fill_and_commit(sink, contents, *threads, options);
}

}  // namespace espalier
