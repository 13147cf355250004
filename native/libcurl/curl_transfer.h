// Connections to web servers through libcurl.
#ifndef ESPALIER_LIBCURL_CURL_TRANSFER_H_
#define ESPALIER_LIBCURL_CURL_TRANSFER_H_

#include <memory>

#include "http/transfer.h"

namespace espalier::http {

/// A transfer that obeys the environment variables of proxies (http_proxy, https_proxy, no_proxy)
/// and SSL_CERT_FILE.
std::unique_ptr<Transfer> make_curl_transfer();

}  // namespace espalier::http

#endif  // ESPALIER_LIBCURL_CURL_TRANSFER_H_
