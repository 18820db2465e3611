#include "penapi/http.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lib/base/network.h"
#include "lib/base/text.h"

namespace pen::api {
namespace {

bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return ascii_alpha(c) || ascii_digit(c) || std::string_view("!#$%&'*+-.^_`|~").contains(c);
  });
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 32 || c == 127; }

std::optional<Refusal> bad(std::string text) { return Refusal{400, std::move(text)}; }

std::optional<Refusal> take_query(std::string_view text, std::map<std::string, std::string>& query) {
  while (!text.empty()) {
    const auto end = std::min(text.find('&'), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    const auto name = decode_percent(pair.substr(0, equals), true);
    const auto value = equals == std::string_view::npos ? std::string() : decode_percent(pair.substr(equals + 1), true);
    if (!name || !value) return bad("malformed escape in the query");
    if (!query.emplace(*name, *value).second) return bad("a parameter stands twice in the query");
  }
  return std::nullopt;
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 202:
      return "Accepted";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Error";
  }
}

}  // namespace

std::optional<std::string> decode_percent(std::string_view text, bool plus_is_blank) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '+' && plus_is_blank) c = ' ';
    if (c == '%') {
      unsigned value = 0;
      if (text.size() - i < 3) return std::nullopt;
      const char* first = text.data() + i + 1;
      const auto [end, error] = std::from_chars(first, first + 2, value, 16);
      if (error != std::errc() || end != first + 2) return std::nullopt;
      c = static_cast<char>(value);
      i += 2;
    }
    if (c == '\0') return std::nullopt;
    out += c;
  }
  return out;
}

std::optional<Refusal> RequestHead::take(std::string_view line) {
  bytes_ += line.size() + 2;
  if (bytes_ > kMaxHeader) return Refusal{431, "the header is too large"};
  if (std::ranges::any_of(line, [](char c) { return is_control(c) && c != '\t'; }))
    return bad("a control character in the header");
  if (first_) {
    first_ = false;
    return request_line(line);
  }
  if (line.empty()) return finish();
  if (line.front() == ' ' || line.front() == '\t') return bad("a folded field");
  const auto colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) return bad("a malformed field");
  return field(line.substr(0, colon), trim(line.substr(colon + 1)));
}

std::optional<Refusal> RequestHead::request_line(std::string_view line) {
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return bad("a malformed request line");
  const std::string_view method = line.substr(0, first);
  std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(method)) return bad("a malformed method");
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    return version.starts_with("HTTP/") ? Refusal{505, "only HTTP/1.1 and HTTP/1.0"} : *bad("a malformed request line");
  old_ = version == "HTTP/1.0";
  request_.keep_alive = !old_;
  request_.method = method;
  if (!target.starts_with('/') || target.contains(' ') || target.contains('\t') || target.contains('#'))
    return bad("a malformed target");
  const auto mark = target.find('?');
  if (mark != std::string_view::npos) {
    if (auto wrong = take_query(target.substr(mark + 1), request_.query)) return wrong;
    target = target.substr(0, mark);
  }
  target.remove_prefix(1);
  while (!target.empty()) {
    const auto end = std::min(target.find('/'), target.size());
    auto segment = decode_percent(target.substr(0, end));
    if (!segment) return bad("malformed escape in the path");
    if (segment->empty()) return bad("an empty path segment");
    request_.path.push_back(*std::move(segment));
    target.remove_prefix(std::min(end + 1, target.size()));
  }
  return std::nullopt;
}

std::optional<Refusal> RequestHead::field(std::string_view name, std::string_view value) {
  if (iequals(name, "Host")) {
    if (std::exchange(has_host_, true)) return bad("two Host fields");
    request_.host = value;
  } else if (iequals(name, "Authorization")) {
    if (!request_.authorization.empty()) return bad("two Authorization fields");
    request_.authorization = value;
  } else if (iequals(name, "Content-Type")) {
    if (!request_.content_type.empty()) return bad("two Content-Type fields");
    request_.content_type = value;
  } else if (iequals(name, "Idempotency-Key")) {
    if (!request_.idempotency_key.empty()) return bad("two Idempotency-Key fields");
    request_.idempotency_key = value;
    if (value.empty()) return bad("an empty Idempotency-Key");
  } else if (iequals(name, "Transfer-Encoding")) {
    return Refusal{501, "bodies with a transfer coding are not taken: send Content-Length"};
  } else if (iequals(name, "Content-Length")) {
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
    if (length_ || value.empty() || end != value.data() + value.size() ||
        (error != std::errc() && error != std::errc::result_out_of_range))
      return bad("a malformed Content-Length");
    if (error != std::errc() || length > (hands_in_mail(request_) ? largest_mail_ : kMaxBody))
      return Refusal{413, "the body is too large"};
    length_ = length;
  } else if (iequals(name, "Connection")) {
    for (const std::string& word : split_list(value)) {
      if (iequals(word, "close")) request_.keep_alive = false;
      if (iequals(word, "keep-alive") && old_) request_.keep_alive = true;
    }
  } else if (iequals(name, "Expect")) {
    if (!iequals(value, "100-continue")) return bad("an unknown expectation");
    expects_continue_ = true;
  }
  return std::nullopt;
}

std::optional<Refusal> RequestHead::finish() {
  done_ = true;
  if (!old_ && !has_host_) return bad("no Host field");
  return std::nullopt;
}

bool hands_in_mail(const Request& request) {
  static const std::vector<std::string> kPath{"api", "v1", "messages"};
  return request.method == "POST" && request.path == kPath;
}

bool is_own_host(std::string_view host, std::string_view myhostname) {
  if (host.starts_with('[')) {
    const auto end = host.find(']');
    return end != std::string_view::npos && parse_ip(std::string(host.substr(1, end - 1))).has_value();
  }
  const std::string name(host.substr(0, host.find(':')));
  return iequals(name, "localhost") || iequals(name, myhostname) || parse_ip(name).has_value();
}

namespace {
std::string head_of(const Response& response) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n", response.status,
                                 reason_phrase(response.status), response.type);
  head += fmt::format(
      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
      "Content-Security-Policy: {}\r\n",
      response.policy);
  return head;
}
}  // namespace

std::string response_head(const Response& response, bool keep_alive) {
  std::string head = head_of(response) + fmt::format("Content-Length: {}\r\n", response.body.size());
  if (response.retry_after.count() > 0) head += fmt::format("Retry-After: {}\r\n", response.retry_after.count());
  if (response.replayed) head += "Idempotent-Replayed: true\r\n";
  if (!response.allow.empty()) head += fmt::format("Allow: {}\r\n", response.allow);
  if (response.status == 401) head += "WWW-Authenticate: Bearer\r\n";
  if (!keep_alive) head += "Connection: close\r\n";
  return head + "\r\n";
}

std::string stream_head(const Response& response) { return head_of(response) + "Connection: close\r\n\r\n"; }

}  // namespace pen::api
