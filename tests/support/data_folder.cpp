#include "support/data_folder.h"

namespace espalier::testing {

std::string data_path(std::string_view name) {
  return std::string(ESPALIER_TEST_DATA "/").append(name);
}

}  // namespace espalier::testing
