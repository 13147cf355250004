#include "files/delta/reference_bases.h"

#include <utility>

#include "espalier/checkpoint_file.h"
#include "espalier/format/format_info.h"

namespace espalier {

std::vector<ReferenceBase> reference_bases(std::span<const SaveBase> bases) {
  std::vector<ReferenceBase> all;
  all.reserve(bases.size());
  for (const SaveBase& base : bases) {
    const Checkpoint& checkpoint = base.file->checkpoint();
    const auto files = checkpoint.catalog().files();
    all.push_back({checkpoint,
                   base.name,
                   checkpoint.catalog().format() == kEspalierFormat,
                   {files.begin(), files.end()}});
  }
  return all;
}

Result<void> copy_of_base(std::span<const SaveBase> bases, const BaseExtent& from,
                          MutableByteSpan out) {
  return bases[from.base].file->source().copy(from.extent, out);
}

Result<References> collect_references(std::span<const SaveBase> bases,
                                      std::vector<FoundTensor> tensors) {
  return collect_references(
      reference_bases(bases), std::move(tensors),
      [&](const BaseExtent& from, MutableByteSpan out) { return copy_of_base(bases, from, out); });
}

}  // namespace espalier
