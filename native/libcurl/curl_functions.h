// The functions of libcurl that a transfer calls.
#ifndef ESPALIER_LIBCURL_CURL_FUNCTIONS_H_
#define ESPALIER_LIBCURL_CURL_FUNCTIONS_H_

#include <curl/curl.h>

#include "espalier/error.h"

namespace espalier::http {

struct CurlFunctions {
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_version_info) version_info;
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_cleanup) easy_cleanup;
  decltype(&::curl_easy_reset) easy_reset;
  decltype(&::curl_easy_setopt) easy_setopt;
  decltype(&::curl_easy_getinfo) easy_getinfo;
  decltype(&::curl_easy_perform) easy_perform;
  decltype(&::curl_easy_strerror) easy_strerror;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;
};

/// Those of the libcurl that the program is linked with. With ESPALIER_STANDALONE, those of the
/// system's libcurl, which is loaded at the first call; kInvalidArgument if there is none, or one
/// that is older than 7.80. Also initialises libcurl. Thread-safe.
Result<const CurlFunctions*> curl_functions();

}  // namespace espalier::http

#endif  // ESPALIER_LIBCURL_CURL_FUNCTIONS_H_
