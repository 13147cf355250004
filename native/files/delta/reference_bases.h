// The bases of a save for the machines that find and collect references.
#ifndef ESPALIER_FILES_DELTA_REFERENCE_BASES_H_
#define ESPALIER_FILES_DELTA_REFERENCE_BASES_H_

#include <span>
#include <vector>

#include "espalier/delta/reference_collector.h"
#include "espalier/error.h"
#include "espalier/save_options.h"
#include "espalier/write/references.h"

namespace espalier {

std::vector<ReferenceBase> reference_bases(std::span<const SaveBase> bases);

/// Copies bytes of a file of one of `bases`, which has as many as `out`.
[[nodiscard]] Result<void> copy_of_base(std::span<const SaveBase> bases, const BaseExtent& from,
                                        MutableByteSpan out);

/// collect_references() of files.
[[nodiscard]] Result<References> collect_references(std::span<const SaveBase> bases,
                                                    std::vector<FoundTensor> tensors);

}  // namespace espalier

#endif  // ESPALIER_FILES_DELTA_REFERENCE_BASES_H_
