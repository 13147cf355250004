// Bytes of files that a program may change for itself.
#ifndef ESPALIER_FILES_OPEN_PRIVATE_SOURCE_H_
#define ESPALIER_FILES_OPEN_PRIVATE_SOURCE_H_

#include <cstddef>
#include <memory>

#include "espalier/source.h"

namespace espalier {

/// The same bytes in new mappings of the `files` files that `source` maps. Writing to them
/// changes memory of this process alone: the files and `source` stay as they are. What `source` has
/// in memory, or cannot be mapped, has no mapping: it must be copied. Throws std::bad_alloc.
std::shared_ptr<const Source> map_privately(std::shared_ptr<const Source> source,
                                            std::size_t files);

/// The same bytes without mappings: all must be copied.
std::shared_ptr<const Source> without_mappings(std::shared_ptr<const Source> source);

}  // namespace espalier

#endif  // ESPALIER_FILES_OPEN_PRIVATE_SOURCE_H_
