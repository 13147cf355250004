#include "espalier/native/write_file.h"

#include <mutex>

#include "espalier/native/parallel.h"

namespace espalier {

Result<void> write_file(const std::filesystem::path& path, const FileContents& contents,
                        const SaveOptions& options) {
  auto sink =
      FileSink::create(path, contents.reserved_bytes,
                       {.sync = options.sync, .replace = options.replace, .ops = options.ops});
  if (!sink) return propagate(sink);
  std::mutex mutex;
  std::uint64_t done = 0;
  auto written = parallel_for(contents.pieces, options.threads,
                              [&](unsigned worker, std::size_t i) -> Result<void> {
                                // A piece this small stays in the CPU cache from hashing to
                                // writing.
                                const auto piece = contents.make_piece(worker, i);
                                if (!piece) return propagate(piece);
                                if (auto ok = sink->write(piece->offset, piece->bytes); !ok)
                                  return ok;
                                if (options.progress) {
                                  const std::lock_guard lock(mutex);
                                  done += contents.piece_bytes(i);
                                  options.progress(done, contents.total_bytes);
                                }
                                return {};
                              });
  if (!written) return written;
  if (auto ok = contents.write_front(*sink); !ok) return ok;
  if (options.progress) options.progress(contents.total_bytes, contents.total_bytes);
  return sink->commit();
}

}  // namespace espalier
