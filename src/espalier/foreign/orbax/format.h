// The row of Orbax's checkpoints.
#ifndef ESPALIER_FOREIGN_ORBAX_FORMAT_H_
#define ESPALIER_FOREIGN_ORBAX_FORMAT_H_

#include "espalier/format/format_info.h"

namespace espalier {

// The last one is no file: what people call a folder that they want to have.
inline constexpr FormatEnding kOrbaxEndings[] = {
    {"_CHECKPOINT_METADATA"},
    {"_METADATA"},
    {"manifest.ocdbt"},
    {".orbax", "a folder of Orbax, which Python's espalier.save_orbax() makes"}};
inline constexpr FormatInfo kOrbaxFormat{
    .name = "orbax", .title = "Orbax", .endings = kOrbaxEndings, .needs_folder = true};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ORBAX_FORMAT_H_
