#include "espalier/checkpoint_file.h"

#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/foreign/any_opener.h"
#include "espalier/pattern.h"
#include "espalier/read/opening_machine.h"
#include "espalier/read/pattern_stepper.h"
#include "espalier/read/resolve_patterns.h"
#include "espalier/walker.h"
#include "files/open/checkpoint_folder.h"
#include "files/open/file_set_opener.h"
#include "files/open/machine_opening.h"
#include "files/open/reading.h"
#include "files/open/source_below.h"
#include "files/os/about_file.h"
#include "files/os/huge_pages.h"
#include "files/os/out_of_memory.h"

namespace espalier {
CheckpointFile::CheckpointFile(std::shared_ptr<const Source> source, Checkpoint checkpoint,
                               const OpenFileOptions& options)
    : source_(std::move(source)),
      checkpoint_(std::move(checkpoint)),
      options_(options),
      shared_(std::make_shared<Shared>()) {}

void CheckpointFile::name_file(Error& error) const noexcept {
  espalier::name_file(error, shared_->path);
}

namespace {

std::unique_ptr<OpeningMachine> any_machine(const OpenOptions& options) {
  return std::make_unique<AnyOpener>(options);
}

Result<std::shared_ptr<const Source>> no_sibling(const std::string&) {
  return fail(ErrorCode::kFileMissing,
              "the checkpoint has bytes in this file, and was not opened from a folder; say with "
              "OpenFileOptions::sibling where its further files are");
}

}  // namespace

Result<CheckpointFile> CheckpointFile::open(const FilePath& path,
                                            const OpenFileOptions& options) try {
  return MachineOpening::open(path, options, any_machine);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<CheckpointFile> MachineOpening::open(const std::filesystem::path& file_or_folder,
                                            const OpenFileOptions& options,
                                            const MakeMachine& make_machine) {
  return about_file(file_or_folder.native(), [&]() -> Result<CheckpointFile> {
    const auto file_path = file_to_open(file_or_folder);
    if (!file_path) return propagate(file_path);
    const std::filesystem::path& path = *file_path;
    auto source = open_source(path, options.access);
    if (!source) return propagate(source);
    OpenFileOptions beside = options;
    if (beside.name.empty()) beside.name = path.filename().string();
    if (!beside.sibling) {
      beside.sibling = [&](const std::string& name) {
        return open_source_below(path.parent_path(), name, options.access);
      };
    }
    auto file = open(std::move(*source), beside, make_machine);
    if (!file) return file;
    file->options_.sibling = options.sibling;
    file->shared_->path = file_or_folder.native();
    return file;
  });
}

Result<CheckpointFile> CheckpointFile::open(ByteSpan bytes, std::shared_ptr<const void> keeper,
                                            const OpenFileOptions& options) try {
  return MachineOpening::open(memory_source(bytes, std::move(keeper)), options, any_machine);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<CheckpointFile> CheckpointFile::open(std::vector<std::byte> bytes,
                                            const OpenFileOptions& options) try {
  return MachineOpening::open(memory_source(std::move(bytes)), options, any_machine);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<CheckpointFile> CheckpointFile::open(std::shared_ptr<const Source> source,
                                            const OpenFileOptions& options) try {
  return MachineOpening::open(std::move(source), options, any_machine);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<CheckpointFile> MachineOpening::open(std::shared_ptr<const Source> source,
                                            const OpenFileOptions& options,
                                            const MakeMachine& make_machine) try {
  if (source == nullptr) return fail(ErrorCode::kInvalidArgument, "there is no source to open");
  const auto mapping = source->mapping();
  if (mapping && mapping->size() != source->size()) {
    return fail(ErrorCode::kInvalidArgument,
                "the source has " + counted(source->size(), "byte") + " and its mapping " +
                    std::to_string(mapping->size()) + "; map all of it, or nothing");
  }
  const auto machine = make_machine({.file_size = source->size(),
                                     .limits = options.limits,
                                     .allocator = huge_page_allocator(),
                                     .nest = options.nest,
                                     .name = options.name,
                                     .is_remote = source->is_remote()});
  auto opened =
      open_files(*machine, std::move(source), options.sibling ? options.sibling : no_sibling,
                 options.sibling_threads, options.limits);
  if (!opened) return propagate(opened);
  return CheckpointFile(std::move(opened->source), std::move(opened->checkpoint), options);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<std::vector<FoundNode>> CheckpointFile::find(std::string_view pattern) const& {
  return about_file(shared_->path, [&]() -> Result<std::vector<FoundNode>> {
    auto parsed = Pattern::parse(pattern);
    if (!parsed) return propagate(parsed);
    resolve_patterns(std::span(&*parsed, 1), {state()});
    PatternStepper stepper(std::span(&*parsed, 1));
    std::vector<FoundNode> found;
    std::uint64_t left = options_.limits.text_bytes;
    for (Walker walk(state(), stepper); walk.next();) {
      const std::string_view path = walk.path();
      // A small file can put a million nodes below one long key.
      if (path.size() > left) {
        return fail(ErrorCode::kLimitExceeded,
                    "the key paths of the nodes that match take more than the " +
                        counted(options_.limits.text_bytes, "byte") +
                        " that Limits::text_bytes allows; find fewer nodes, or use a Walker");
      }
      left -= path.size();
      found.push_back({std::string(path), walk.node()});
    }
    return found;
  });
}

}  // namespace espalier
