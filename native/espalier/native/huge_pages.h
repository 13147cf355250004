// Memory for large indexes.
#ifndef ESPALIER_NATIVE_HUGE_PAGES_H_
#define ESPALIER_NATIVE_HUGE_PAGES_H_

#include "espalier/base/arena.h"

namespace espalier {

/// An allocator that asks the system for huge pages when a block is large: filling fresh memory
/// page by page costs more than everything else in opening an index of a million tensors.
ArenaAllocator huge_page_allocator();

}  // namespace espalier

#endif  // ESPALIER_NATIVE_HUGE_PAGES_H_
