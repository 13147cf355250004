// Key maps on the command line: --map and the options beside it.
#ifndef ESPALIER_CLI_OPENING_KEY_MAPS_H_
#define ESPALIER_CLI_OPENING_KEY_MAPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/opening/command.h"
#include "espalier/checkpoint_file.h"
#include "espalier/key_map.h"
#include "espalier/map/lift.h"
#include "espalier/mapped_checkpoint.h"

namespace espalier::cli {

/// Adds --map, whose help says `what` it does, what it must know besides, and --map-reverse, which
/// reads the map from right to left.
void add_map_options(CLI::App& command, MapOptions& options, const std::string& what);

/// The text of a map, of what belongs to one, or of another small file, up to `most` bytes. Never
/// waits: kNotARegularFile for a FIFO or a device. kFileNotFound, kIoError, kLimitExceeded.
[[nodiscard]] Result<std::string> read_text(const std::string& file,
                                            std::uint64_t most = KeyMap::kMaxBytes);

/// The map of the library with this name, or that of a file: one whose name has a slash or ends in
/// ".json".
tl::expected<KeyMap, Failure> find_map(const std::string& name);

/// Whether --map names a file.
bool is_map_file(const std::string& name);

/// What those options say, as the JSON that the viewer's page reads.
tl::expected<std::string, Failure> page_options(const MapOptions& options);

/// What those options say.
tl::expected<LiftOptions, Failure> lift_options(const MapOptions& options);

/// A map, and what it makes.
struct MapStage {
  KeyMap map;
  MappedCheckpoint mapped;
};

/// What the maps of the options make of the inputs, one after the other, or in the other order if
/// they are read from right to left: at least one. The template of `mapped_options` is for the
/// last.
tl::expected<std::vector<MapStage>, Failure> map_through(const MapOptions& options,
                                                         std::vector<MapInput> inputs,
                                                         const MappedOptions& mapped_options);

/// What the maps make of a file, as an open checkpoint. Without that flag, maps that do not take
/// the file from left to right are tried from right to left.
[[nodiscard]] Result<CheckpointFile> open_through_map(const CheckpointFile& file,
                                                      const MapOptions& options,
                                                      const OpenFileOptions& open);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_OPENING_KEY_MAPS_H_
