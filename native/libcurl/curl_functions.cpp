#include "libcurl/curl_functions.h"

#ifdef ESPALIER_STANDALONE
#include <array>

#include <dlfcn.h>
#endif

namespace espalier::http {
namespace {

#ifdef ESPALIER_STANDALONE

// The names of libcurl 7.16 and later: its functions have been the same since. Debian has the
// second one, too, for programs that must not use OpenSSL.
#ifdef __APPLE__
constexpr std::array kLibraries = {"/usr/lib/libcurl.4.dylib", "libcurl.4.dylib"};
#else
constexpr std::array kLibraries = {"libcurl.so.4", "libcurl-gnutls.so.4"};
#endif

template <class Function>
bool find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, CurlFunctions& found) {
  return find_function(library, "curl_global_init", found.global_init) &&
         find_function(library, "curl_version_info", found.version_info) &&
         find_function(library, "curl_easy_init", found.easy_init) &&
         find_function(library, "curl_easy_cleanup", found.easy_cleanup) &&
         find_function(library, "curl_easy_reset", found.easy_reset) &&
         find_function(library, "curl_easy_setopt", found.easy_setopt) &&
         find_function(library, "curl_easy_getinfo", found.easy_getinfo) &&
         find_function(library, "curl_easy_perform", found.easy_perform) &&
         find_function(library, "curl_easy_strerror", found.easy_strerror) &&
         find_function(library, "curl_slist_append", found.slist_append) &&
         find_function(library, "curl_slist_free_all", found.slist_free_all);
}

// Loads the first that will do. A library that was loaded is never unloaded: its threads may run
// on.
bool find_library(CurlFunctions& found) {
  constexpr unsigned kOldest = 0x075000;  // 7.80
  for (const char* const name : kLibraries) {
    void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr || !find_all(library, found)) continue;
    if (found.version_info(CURLVERSION_NOW)->version_num >= kOldest) return true;
  }
  return false;
}

#else

bool find_library(CurlFunctions& found) {
  found = {::curl_global_init,   ::curl_version_info, ::curl_easy_init,     ::curl_easy_cleanup,
           ::curl_easy_reset,    ::curl_easy_setopt,  ::curl_easy_getinfo,  ::curl_easy_perform,
           ::curl_easy_strerror, ::curl_slist_append, ::curl_slist_free_all};
  return true;
}

#endif

}  // namespace

Result<const CurlFunctions*> curl_functions() {
  // Initialised once, as every static is. Never undone: another part of the program may use
  // libcurl.
  static CurlFunctions functions = {};
  static const bool is_found = find_library(functions);
  if (!is_found) {
    return fail(
        ErrorCode::kInvalidArgument,
        "reading URLs needs libcurl 7.80 or later, which this system does not have; install it "
        "(Debian: libcurl4), or download the file first");
  }
  [[maybe_unused]] static const CURLcode is_ready = functions.global_init(CURL_GLOBAL_DEFAULT);
  return &functions;
}

}  // namespace espalier::http
