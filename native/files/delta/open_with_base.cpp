#include "files/delta/open_with_base.h"

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/format/file_set.h"
#include "espalier/format/format_info.h"
#include "espalier/read/to_value.h"
#include "files/os/out_of_memory.h"

namespace espalier {
namespace {

// One of the files that a checkpoint lies in.
class OneFile final : public Source {
 public:
  OneFile(const CheckpointFile& checkpoint, std::uint32_t file)
      : checkpoint_(checkpoint), file_(file) {}

  std::uint64_t size() const override {
    return checkpoint_.checkpoint().catalog().files()[file_].length;
  }
  Result<ByteSpan> read(const Extent& extent, MutableByteSpan scratch) const override {
    return checkpoint_.source().read(there(extent), scratch);
  }
  Result<void> copy(const Extent& extent, MutableByteSpan out) const override {
    return checkpoint_.source().copy(there(extent), out);
  }
  std::optional<ByteSpan> mapping(std::uint32_t) const override {
    return checkpoint_.source().mapping(file_);
  }

 private:
  Extent there(const Extent& extent) const { return {file_, extent.offset, extent.length}; }

  const CheckpointFile checkpoint_;
  const std::uint32_t file_;
};

// Whether a checkpoint refers to a file of this name.
bool refers_to(const CheckpointFile& checkpoint, const std::string& name) {
  const auto files = checkpoint.checkpoint().catalog().files();
  return std::any_of(files.begin(), files.end(),
                     [&](const FileEntry& each) { return each.name == name; });
}

}  // namespace

Result<CheckpointFile> open_with_base(const CheckpointFile& file, const CheckpointFile& base,
                                      Unfound unfound) try {
  const auto files = file.checkpoint().catalog().files();
  if (file.checkpoint().catalog().format() != kEspalierFormat) {
    return fail(ErrorCode::kInvalidArgument, "only Espalier files have a base");
  }
  if (files.size() == 1) return file;
  auto state = state_to_rewrite(file);
  if (!state) return propagate(state);
  // The label of `base` in the new table of files, whatever its name is.
  std::string label = "base";
  while (refers_to(file, label) || refers_to(base, label)) label += '_';
  const std::array onto = {SaveBase{&base, label}};
  auto references = rebase_references({&file, "update.espalier"}, onto, *state, unfound);
  if (!references) return propagate(references);
  auto bytes = write_with_references(*state, *references, {.metadata = to_value(file.metadata())});
  if (!bytes) return propagate(bytes);
  OpenFileOptions options;
  options.sibling = [&](const std::string& name) -> Result<std::shared_ptr<const Source>> {
    if (name == label) return std::make_shared<OneFile>(base, 0);
    Error problem{ErrorCode::kFileMissing, Error::kNoOffset, {}, "no file has this name"};
    for (const CheckpointFile* each : {&file, &base}) {
      const auto entries = each->checkpoint().catalog().files();
      for (std::uint32_t i = 1; i < entries.size(); ++i) {
        if (entries[i].name != name) continue;
        if (!entries[i].problem) return std::make_shared<OneFile>(*each, i);
        problem = *entries[i].problem;
      }
    }
    return tl::unexpected<Error>(std::move(problem));
  };
  return CheckpointFile::open(std::move(*bytes), options);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier
