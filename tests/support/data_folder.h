// Where the files in tests/data are.
#ifndef ESPALIER_TESTS_SUPPORT_DATA_FOLDER_H_
#define ESPALIER_TESTS_SUPPORT_DATA_FOLDER_H_

#include <string>
#include <string_view>

namespace espalier::testing {

/// The path of a file in tests/data. A function, so that one source alone names the clone's folder:
/// a compiler cache serves every other object to clones elsewhere.
std::string data_path(std::string_view name);

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_SUPPORT_DATA_FOLDER_H_
