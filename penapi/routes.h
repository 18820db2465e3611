#pragma once
/// The routes of penapi: what there is, which clients may ask, what answers.
///
/// Use:     const Match match = find_route(request);
/// docs/api.md and conf/penapi-openapi.json describe each row; a test compares them with this table.
/// Pure; any thread.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/async/task.h"
#include "penapi/http.h"

namespace pen::api {

class Server;

/// The clients that may ask: all; those that may read (docs/api.md, "Who may ask"); those with a token; those with a
/// token of smtpd's (docs/http-submission.md).
enum class Access : std::uint8_t { open, read, order, submit };

struct Call {
  const Request& request;
  std::string argument;  // of the {…} in the pattern
  std::string by = {};   // the user who gives the order, in the words of its event
};
using Handler = async::Task<Response> (*)(Server& server, Call call);

struct Route {
  std::string_view method;   // GET also answers HEAD
  std::string_view pattern;  // "/api/v1/queue/{id}"
  Access access;
  Handler handler;  // nullptr: the server itself answers, for a stream goes on, and mail is long
};
/// All that penapi serves; docs/api.md describes each.
std::span<const Route> routes();

struct Match {
  const Route* route = nullptr;  // nullptr: there is none
  std::string argument;
  std::string allow;  // the methods of the path, if another one was asked for
};
/// By method and path. A whole word of a pattern wins over {…}: an order is not the id of a message.
Match find_route(const Request& request);

/// {"error": text}
Response failure(int status, std::string_view text);

}  // namespace pen::api
