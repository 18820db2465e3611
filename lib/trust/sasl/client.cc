#include "lib/trust/sasl/client.h"

#include <algorithm>

#include "lib/base/base64.h"
#include "lib/base/digest/digest.h"
#include "lib/base/text.h"

namespace pen::sasl {

using digest::Digest;
using digest::equal_secrets;
using digest::hash;
using digest::hmac;
using digest::pbkdf2;
namespace {

std::unexpected<Error> refuse(const char* why) { return fail(SaslError::bad_challenge, why); }

class Plain final : public ClientExchange {
 public:
  explicit Plain(Credentials c) : credentials_(std::move(c)) {}
  std::string_view mechanism() const override { return "PLAIN"; }
  std::optional<std::string> initial() override {
    std::string out(1, '\0');
    out += credentials_.user;
    out += '\0';
    out += credentials_.password;
    return out;
  }
  Result<std::string> respond(std::string_view) override { return refuse("PLAIN has no challenges"); }

 private:
  Credentials credentials_;
};

class Login final : public ClientExchange {
 public:
  explicit Login(Credentials c) : credentials_(std::move(c)) {}
  std::string_view mechanism() const override { return "LOGIN"; }
  Result<std::string> respond(std::string_view) override {
    // The prompts differ between servers; only their order counts.
    if (++step_ == 1) return credentials_.user;
    if (step_ == 2) return credentials_.password;
    return refuse("LOGIN has two challenges");
  }

 private:
  Credentials credentials_;
  int step_ = 0;
};

class CramMd5 final : public ClientExchange {
 public:
  explicit CramMd5(Credentials c) : credentials_(std::move(c)) {}
  std::string_view mechanism() const override { return "CRAM-MD5"; }
  Result<std::string> respond(std::string_view challenge) override {
    if (std::exchange(done_, true)) return refuse("CRAM-MD5 has one challenge");
    const std::string digest = hmac(Digest::md5, credentials_.password, challenge);
    if (digest.empty()) return refuse("this system has no MD5");
    std::string out = credentials_.user + " ";
    for (const char c : digest) {
      out += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
      out += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
    }
    return out;
  }

 private:
  Credentials credentials_;
  bool done_ = false;
};

class XOAuth2 final : public ClientExchange {
 public:
  explicit XOAuth2(Credentials c) : credentials_(std::move(c)) {}
  std::string_view mechanism() const override { return "XOAUTH2"; }
  std::optional<std::string> initial() override {
    return "user=" + credentials_.user + "\1" + "auth=Bearer " + credentials_.password + "\1\1";
  }
  Result<std::string> respond(std::string_view) override {
    // The challenge explains what is wrong with the token; the server expects an empty response before it refuses.
    if (std::exchange(done_, true)) return refuse("XOAUTH2 has one challenge");
    return std::string();
  }

 private:
  Credentials credentials_;
  bool done_ = false;
};

class Scram final : public ClientExchange {
 public:
  Scram(std::string_view name, Digest digest, Credentials c, std::string nonce)
      : name_(name), digest_(digest), credentials_(std::move(c)), nonce_(std::move(nonce)) {
    first_bare_ = "n=" + saslname(credentials_.user) + ",r=" + nonce_;
  }
  std::string_view mechanism() const override { return name_; }
  std::optional<std::string> initial() override { return "n,," + first_bare_; }
  Result<std::string> respond(std::string_view challenge) override {
    switch (++step_) {
      case 1:
        return answer(challenge);
      case 2:
        return check(challenge);
      default:
        return refuse("SCRAM has two challenges");
    }
  }
  bool satisfied() const override { return satisfied_; }

 private:
  static std::string saslname(std::string_view user) {
    std::string out;
    for (const char c : user) {
      if (c == '=')
        out += "=3D";
      else if (c == ',')
        out += "=2C";
      else
        out += c;
    }
    return out;
  }
  /// Cuts "x=value" and the comma behind it off the start of text.
  static std::optional<std::string_view> take(std::string_view& text, char name) {
    if (text.size() < 2 || text[0] != name || text[1] != '=') return std::nullopt;
    const auto comma = text.find(',');
    const auto value = text.substr(2, comma == std::string_view::npos ? comma : comma - 2);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    return value;
  }

  Result<std::string> answer(std::string_view first) {
    std::string_view rest = first;
    const auto nonce = take(rest, 'r');  // "m=" in front would be an extension that must be understood
    const auto salt64 = take(rest, 's');
    const auto count = take(rest, 'i');
    if (!nonce || !salt64 || !count) return refuse("SCRAM: malformed first message");
    if (!nonce->starts_with(nonce_) || nonce->size() == nonce_.size())
      return refuse("SCRAM: the server's nonce does not continue ours");
    const auto salt = base64_decode(*salt64);
    const auto iterations = parse_unsigned(*count);
    if (!salt || salt->empty() || !iterations || *iterations == 0) return refuse("SCRAM: malformed first message");
    if (*iterations > kMaxIterations) return refuse("SCRAM: the server asks for too much work");
    const std::string salted = pbkdf2(digest_, credentials_.password, *salt, static_cast<unsigned>(*iterations));
    const std::string client_key = hmac(digest_, salted, "Client Key");
    const std::string final_bare = "c=biws,r=" + std::string(*nonce);
    const std::string message = first_bare_ + "," + std::string(first) + "," + final_bare;
    const std::string signature = hmac(digest_, hash(digest_, client_key), message);
    std::string proof = client_key;
    for (std::size_t i = 0; i < proof.size(); ++i) proof[i] = static_cast<char>(proof[i] ^ signature[i]);
    server_signature_ = hmac(digest_, hmac(digest_, salted, "Server Key"), message);
    return final_bare + ",p=" + base64_encode(proof);
  }

  Result<std::string> check(std::string_view last) {
    const auto value = take(last, 'v');
    const auto signature = value ? base64_decode(*value) : std::nullopt;
    if (!signature || !equal_secrets(*signature, server_signature_))
      return refuse("SCRAM: the server has not proved that it knows the password");
    satisfied_ = true;
    return std::string();
  }

  std::string name_;
  Digest digest_;
  Credentials credentials_;
  std::string nonce_, first_bare_, server_signature_;
  int step_ = 0;
  bool satisfied_ = false;
};

}  // namespace

std::unique_ptr<ClientExchange> choose(const std::vector<std::string>& offered,
                                       const std::function<bool(const Mechanism&)>& allowed,
                                       const Credentials& credentials, std::string nonce) {
  const auto usable = [&](std::string_view name) {
    return std::ranges::any_of(offered, [&](const auto& o) { return iequals(o, name); }) &&
           allowed({std::string(name), known_properties(name)});
  };
  if (usable("SCRAM-SHA-256"))
    return std::make_unique<Scram>("SCRAM-SHA-256", Digest::sha256, credentials, std::move(nonce));
  if (usable("SCRAM-SHA-1")) return std::make_unique<Scram>("SCRAM-SHA-1", Digest::sha1, credentials, std::move(nonce));
  if (usable("CRAM-MD5")) return std::make_unique<CramMd5>(credentials);
  if (usable("PLAIN")) return std::make_unique<Plain>(credentials);
  if (usable("LOGIN")) return std::make_unique<Login>(credentials);
  if (usable("XOAUTH2")) return std::make_unique<XOAuth2>(credentials);
  return nullptr;
}

}  // namespace pen::sasl
