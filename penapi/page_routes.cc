// The status page: four files, which load nothing from elsewhere.
#include "penapi/page.h"
#include "penapi/server.h"
#include "penapi/views.h"

namespace pen::api {

using async::Task;

namespace {

/// Only what comes from here, and no script or style within the page: a text of a stranger can never become one.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

Response file(const Server& server, std::string_view content, std::string_view type) {
  if (!server.config.settings().penapi_status_page) return failure(404, "penapi_status_page is off");
  Response out;
  out.body = content;
  out.type = type;
  out.policy = kPolicy;
  return out;
}

}  // namespace

Task<Response> page_html(Server& server, Call) { co_return file(server, page::kHtml, "text/html; charset=utf-8"); }
Task<Response> page_style(Server& server, Call) { co_return file(server, page::kStyle, "text/css; charset=utf-8"); }
Task<Response> page_icon(Server& server, Call) { co_return file(server, page::kIcon, "image/svg+xml"); }
Task<Response> page_script(Server& server, Call) {
  co_return file(server, page::kScript, "text/javascript; charset=utf-8");
}

}  // namespace pen::api
