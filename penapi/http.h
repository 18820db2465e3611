#pragma once
/// Reads HTTP/1.1 requests: the small part of RFC 9112 that an API on this host needs, and nothing lenient.
///
/// Use:     RequestHead head;  for each line: if (auto wrong = head.take(line)) …;  head.done()
///          then read head.length() bytes of body.
/// Accepts: GET, HEAD, POST, DELETE and any other method by name; targets in origin form; Content-Length, once. What is
///          refused, and why: chunked bodies and other transfer codings (501), folded and malformed fields, two
///          lengths, a control character anywhere (400), a header above kMaxHeader (431), a body above kMaxBody, or
///          for mail that is handed in above the limit for that (413).
/// Pure; any thread.
/// Source:  RFC 9112 sections 2 to 6, RFC 9110 section 5.
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pen::api {

inline constexpr std::size_t kMaxHeader = 8 * 1024;
inline constexpr std::size_t kMaxBody = 64 * 1024;

/// Why a request is refused.
struct Refusal {
  int status = 400;
  std::string text;
};

struct Request {
  std::string method;
  std::vector<std::string> path;             // decoded segments: "/api/v1/queue" is {"api", "v1", "queue"}
  std::map<std::string, std::string> query;  // decoded; a name that is there twice is refused
  std::string host, authorization, content_type, idempotency_key, body;
  bool keep_alive = true;
};

/// POST /api/v1/messages: its body is not kept with the request (submissions.h).
bool hands_in_mail(const Request& request);

class RequestHead {
 public:
  /// largest_mail: of the body of a request that hands in mail.
  explicit RequestHead(std::size_t largest_mail = kMaxBody) : largest_mail_(largest_mail) {}
  /// A line without its CRLF or LF. The first one is the request line.
  std::optional<Refusal> take(std::string_view line);
  /// The empty line has come.
  bool done() const { return done_; }
  std::size_t length() const { return length_.value_or(0); }
  bool expects_continue() const { return expects_continue_; }
  Request& request() { return request_; }
  const Request& request() const { return request_; }

 private:
  std::optional<Refusal> request_line(std::string_view line);
  std::optional<Refusal> field(std::string_view name, std::string_view value);
  std::optional<Refusal> finish();

  Request request_;
  std::size_t largest_mail_;
  std::size_t bytes_ = 0;
  std::optional<std::size_t> length_;
  bool first_ = true, done_ = false, old_ = false, expects_continue_ = false, has_host_ = false;
};

/// "%41b" is "Ab". nullopt: a malformed escape or a NUL.
std::optional<std::string> decode_percent(std::string_view text, bool plus_is_blank = false);
/// Whether a Host field may name this server: an address, localhost or one of our names. Others are those of web sites
/// that have their visitors' browsers ask 127.0.0.1.
bool is_own_host(std::string_view host, std::string_view myhostname);

struct Response {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  std::string allow = {};                     // of 405
  std::string policy = "default-src 'none'";  // Content-Security-Policy
  std::chrono::seconds retry_after{0};        // 0: nothing is said of that
  bool replayed = false;                      // the answer of an earlier request with the same Idempotency-Key
};
/// The status line and the fields, with the empty line.
std::string response_head(const Response& response, bool keep_alive);
/// The same of an answer that goes on until the connection ends.
std::string stream_head(const Response& response);

}  // namespace pen::api
