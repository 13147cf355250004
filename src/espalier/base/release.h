// Frees memory that is not needed any more.
#ifndef ESPALIER_BASE_RELEASE_H_
#define ESPALIER_BASE_RELEASE_H_

namespace espalier {

/// Empties a vector or string and frees its memory. `container = {}` assigns an empty list, and
/// keeps the memory.
template <class Container>
void release_memory(Container& container) {
  container = Container();
}

}  // namespace espalier

#endif  // ESPALIER_BASE_RELEASE_H_
