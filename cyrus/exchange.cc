#include "cyrus/exchange.h"

#include <sasl/sasl.h>

#include <utility>

#include "lib/base/text.h"

namespace pen::cyrus {
namespace {

/// The library, or the server that it asks, cannot decide: no user is to be locked out for it.
bool is_temporary(int result) {
  switch (result) {
    case SASL_FAIL:  // saslauthd does not answer; a database cannot be opened
    case SASL_NOMEM:
    case SASL_NOTINIT:
    case SASL_TRYAGAIN:
    case SASL_BADPARAM:
    case SASL_NOTDONE:
    case SASL_CONFIGERR:
    case SASL_UNAVAIL:
      return true;
    default:
      return false;
  }
}

/// "address;port", as the library wants it; empty: not known.
std::string end_of(const std::string& address, unsigned port) {
  return address.empty() || port == 0 ? std::string() : address + ";" + std::to_string(port);
}
// The library's PLAIN and LOGIN never give back the memory of a login with a name that has no canonical form: an
// empty one, or one that is longer than 1,024 bytes with its realm. So these come to nothing here.
constexpr std::size_t kMaxName = 512;

bool has_long_name_in_plain(const std::string& message) {
  const auto identity = message.find('\0');
  if (identity == std::string::npos) return false;  // no message of PLAIN: the library says so
  const auto name = message.find('\0', identity + 1);
  return identity > kMaxName || (name != std::string::npos && name - identity - 1 > kMaxName);
}

const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

}  // namespace

Exchange::Exchange(const Application& application, sasl::dovecot::Application who, sasl::dovecot::Request request)
    : application_(application), who_(std::move(who)), request_(std::move(request)) {}

Exchange::~Exchange() { Exchange::end(); }

void Exchange::end() {
  if (connection_ == nullptr) return;
  std::vector<Note> unheard;
  const Working working(application_, unheard);
  sasl_dispose(&connection_);
}

/// What the library would answer, if the client's first words name nobody that it may be asked about.
std::optional<Step> Exchange::without_name(const std::string& bytes) {
  if (refused_ != SASL_OK) return step(refused_, nullptr, 0);
  if (std::exchange(answered_, true)) return std::nullopt;
  if (iequals(request_.mechanism, "PLAIN") && has_long_name_in_plain(bytes)) return step(SASL_BADAUTH, nullptr, 0);
  if (!iequals(request_.mechanism, "LOGIN") || (!bytes.empty() && bytes.size() <= kMaxName)) return std::nullopt;
  refused_ = bytes.empty() ? SASL_FAIL : SASL_BADAUTH;  // as the library says after the password
  constexpr std::string_view kNext = "Password:";
  return step(SASL_CONTINUE, kNext.data(), kNext.size());
}

int Exchange::open() {
  const std::string local = end_of(request_.local_address, request_.local_port),
                    remote = end_of(request_.remote_address, request_.remote_port);
  const int result = sasl_server_new(request_.service.empty() ? "smtp" : request_.service.c_str(), or_null(who_.host),
                                     or_null(who_.realm), or_null(local), or_null(remote), nullptr, 0, &connection_);
  if (result != SASL_OK) return result;
  sasl_security_properties_t none{};
  return sasl_setprop(connection_, SASL_SEC_PROPS, &none);
}

Step Exchange::start() {
  std::vector<Note> notes;
  const Working working(application_, notes);
  const char* out = nullptr;
  unsigned size = 0;
  int result = open();
  if (result == SASL_OK) {
    const std::string initial = request_.initial.value_or(std::string());
    if (request_.initial)
      if (auto refused = without_name(initial)) return *std::move(refused);
    result = sasl_server_start(connection_, request_.mechanism.c_str(), request_.initial ? initial.c_str() : nullptr,
                               static_cast<unsigned>(initial.size()), &out, &size);
  }
  Step done = step(result, out, size);
  request_.initial.reset();
  done.notes = std::move(notes);
  return done;
}

Step Exchange::respond(const std::string& bytes) {
  std::vector<Note> notes;
  const Working working(application_, notes);
  if (auto refused = without_name(bytes)) return *std::move(refused);
  const char* out = nullptr;
  unsigned size = 0;
  const int result = sasl_server_step(connection_, bytes.c_str(), static_cast<unsigned>(bytes.size()), &out, &size);
  Step done = step(result, out, size);
  done.notes = std::move(notes);
  return done;
}

Step Exchange::step(int result, const char* out, unsigned size) {
  Step done;
  if (result == SASL_CONTINUE) {
    done.kind = Step::Kind::challenge;
    if (out != nullptr) done.text.assign(out, size);
    return done;
  }
  const void* user = nullptr;
  if (connection_ != nullptr && sasl_getprop(connection_, SASL_USERNAME, &user) == SASL_OK && user != nullptr)
    done.user = static_cast<const char*>(user);
  if (result == SASL_OK) {
    done.kind = done.user.empty() ? Step::Kind::temporary : Step::Kind::ok;
    if (done.user.empty()) done.text = "no user name";
    return done;
  }
  done.kind = is_temporary(result) ? Step::Kind::temporary : Step::Kind::failed;
  done.text = sasl_errstring(result == SASL_NOUSER ? SASL_BADAUTH : result, nullptr, nullptr);
  return done;
}

}  // namespace pen::cyrus
