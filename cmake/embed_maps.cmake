# Writes a source with the texts of key maps. Usage: cmake -DOUT=FILE -DMAPS=FOLDER -P embed_maps.cmake
file(GLOB files "${MAPS}/*.json")
list(SORT files)
set(entries "")
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME_WE)
  file(READ "${file}" text)
  string(APPEND entries "    {\"${name}\", R\"json(${text})json\"},\n")
endforeach()
file(
  WRITE "${OUT}.new"
  "// Made of maps/*.json by cmake/embed_maps.cmake.
#include \"espalier/key_map.h\"

namespace espalier {
namespace {

constexpr KnownMap kKnownMaps[] = {
${entries}};

}  // namespace

std::span<const KnownMap> known_maps() { return kKnownMaps; }

}  // namespace espalier
")
file(COPY_FILE "${OUT}.new" "${OUT}" ONLY_IF_DIFFERENT)
