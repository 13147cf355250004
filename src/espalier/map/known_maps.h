// The key maps that come with the library: those of the folder maps/.
#ifndef ESPALIER_MAP_KNOWN_MAPS_H_
#define ESPALIER_MAP_KNOWN_MAPS_H_

#include <span>
#include <string_view>

namespace espalier {

/// A map and its text, which KeyMap::parse() takes.
struct KnownMap {
  std::string_view name;
  std::string_view text;
};

/// All of them, by name.
std::span<const KnownMap> known_maps();

}  // namespace espalier

#endif  // ESPALIER_MAP_KNOWN_MAPS_H_
