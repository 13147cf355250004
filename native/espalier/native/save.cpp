#include "espalier/native/save.h"

#include <new>
#include <optional>
#include <vector>

#include "espalier/native/ordered_section.h"
#include "espalier/native/out_of_memory.h"
#include "espalier/native/save_format.h"
#include "espalier/native/write_file.h"
#include "espalier/write/writer.h"

namespace espalier {

Result<void> save(const std::filesystem::path& path, const Value& state,
                  const SaveOptions& options) try {
  if (options.check_ending) {
    if (auto ok = check_format_ending(path, SaveFormat::kEspalier); !ok) return ok;
  }
  auto writer =
      Writer::plan(state, options.metadata,
                   {.compression_level = options.compression_level, .limits = options.limits});
  if (!writer) return propagate(writer);
  OrderedSection turns;
  std::vector<Writer::Scratch> scratches(thread_count(options.threads));
  const auto make_piece = [&](unsigned worker, std::size_t i) -> Result<PlacedPiece> {
    // Only compressed chunks wait for their offset.
    std::optional<OrderedSection::Turn> turn;
    if (writer->is_compressed()) turn.emplace(turns, i);
    auto bytes = writer->make(i, scratches[worker]);
    if (!bytes) return propagate(bytes);
    PlacedPiece piece{.bytes = *bytes};
    const auto place = [&] { piece.offset = writer->place(i).offset; };
    if (!turn) {
      place();
    } else if (!turn->take(place)) {
      return fail(ErrorCode::kIncomplete, "the save was aborted");  // for an error before this
    }
    return piece;
  };
  const auto write_front = [&](const FileSink& sink) -> Result<void> {
    auto front = writer->finish();
    if (!front) return propagate(front);
    if (auto ok = sink.write(kHeaderBytes, front->index); !ok) return ok;
    return sink.write(0, front->header);
  };
  return write_file(path,
                    {.reserved_bytes = writer->is_compressed() ? 0 : writer->file_length(),
                     .total_bytes = writer->file_length(),
                     .pieces = writer->pieces().size(),
                     .piece_bytes = [&](std::size_t i) { return writer->pieces()[i].length; },
                     .make_piece = make_piece,
                     .write_front = write_front},
                    options);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier
