#include "lib/trust/sasl/token_service.h"

#include <algorithm>

#include "lib/base/base64.h"
#include "lib/base/text.h"

namespace pen::sasl {
namespace {

constexpr std::string_view kName = "OAUTHBEARER";
constexpr char kSeparator = '\x01';
constexpr std::string_view kWrong = R"({"status":"invalid_token"})";

/// "=2C" and "=3D" stand for , and = (RFC 5801 section 4). nullopt: another escape.
std::optional<std::string> decode_name(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '=') {
      out += text[i];
      continue;
    }
    const std::string_view escape = text.substr(i, 3);
    if (escape != "=2C" && escape != "=3D") return std::nullopt;
    out += escape == "=2C" ? ',' : '=';
    i += 2;
  }
  return out;
}

bool visible(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > 32 && c < 127; });
}

}  // namespace

std::optional<BearerResponse> parse_bearer(std::string_view response) {
  BearerResponse out;
  const auto header = response.find(kSeparator);
  if (header == std::string_view::npos || !response.ends_with("\x01\x01")) return std::nullopt;
  std::string_view names = response.substr(0, header);
  if (!names.starts_with("n,") && !names.starts_with("y,")) return std::nullopt;  // channel bindings are not offered
  names.remove_prefix(2);
  if (!names.ends_with(',')) return std::nullopt;
  names.remove_suffix(1);
  if (!names.empty()) {
    if (!names.starts_with("a=")) return std::nullopt;
    auto identity = decode_name(names.substr(2));
    if (!identity || identity->empty()) return std::nullopt;
    out.identity = *std::move(identity);
  }
  std::string_view pairs = response.substr(header + 1, response.size() - header - 2);
  while (!pairs.empty()) {
    const auto end = pairs.find(kSeparator);
    if (end == std::string_view::npos || end == 0) return std::nullopt;
    const std::string_view pair = pairs.substr(0, end);
    pairs.remove_prefix(end + 1);
    if (!istarts_with(pair, "auth=")) continue;  // host and port say where the client thinks that it is
    const std::string_view value = pair.substr(5);
    constexpr std::string_view kScheme = "Bearer ";
    if (!out.token.empty() || !istarts_with(value, kScheme)) return std::nullopt;
    out.token = trim(value.substr(kScheme.size()));
    if (!visible(out.token)) return std::nullopt;
  }
  if (out.token.empty()) return std::nullopt;
  return out;
}

std::string bearer_response(std::string_view token) {
  return "n,,\x01"
         "auth=Bearer " +
         std::string(token) + "\x01\x01";
}

class TokenService::One final : public Exchange {
 public:
  explicit One(const TokenService& service) : service_(service) {}
  async::Task<Answer> start(Request request, async::Until) override {
    if (!request.initial) {  // RFC 7628 has the client begin: an empty challenge asks for it
      begun_ = false;
      co_return Answer{.kind = Answer::Kind::challenge, .text = {}, .user = {}};
    }
    co_return told(service_.decide(*request.initial));
  }
  async::Task<Answer> respond(std::string base64, async::Until) override {
    if (!std::exchange(begun_, true)) co_return told(service_.decide(base64));
    co_return std::move(refused_);
  }

 private:
  /// A refusal is told first, and then is one.
  Answer told(Answer answer) {
    if (answer.kind != Answer::Kind::failed) return answer;
    refused_ = std::move(answer);
    return {.kind = Answer::Kind::challenge, .text = base64_encode(kWrong), .user = {}};
  }

  const TokenService& service_;
  bool begun_ = true;
  Answer refused_;
};

TokenService::TokenService(Result<TokenFile> tokens) {
  if (tokens)
    tokens_ = *std::move(tokens);
  else
    problem_ = tokens.error().message();
  mechanisms_.push_back({std::string(kName), known_properties(kName)});
}

async::Task<void> TokenService::settled(async::Until) { co_return; }

std::unique_ptr<Authenticator::Exchange> TokenService::begin() { return std::make_unique<One>(*this); }

Answer TokenService::decide(std::string_view base64) const {
  if (!problem_.empty()) return {.kind = Answer::Kind::temporary, .text = problem_, .user = {}};
  const auto decoded = base64_decode(base64);
  const auto response = decoded ? parse_bearer(*decoded) : std::nullopt;
  if (!response) return {.kind = Answer::Kind::failed, .text = "malformed response", .user = {}};
  const TokenFile::Entry* entry = tokens_.find(response->token);
  if (entry == nullptr || (!response->identity.empty() && response->identity != entry->login))
    return {.kind = Answer::Kind::failed, .text = "a wrong token", .user = {}};
  return {.kind = Answer::Kind::ok, .text = {}, .user = entry->login, .senders = entry->senders};
}

}  // namespace pen::sasl
