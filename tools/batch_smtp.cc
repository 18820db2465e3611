#include "tools/batch_smtp.h"

#include <utility>

#include "lib/base/date.h"
#include "lib/mail/command.h"

namespace pen::tools {
namespace {

std::string notify_words(std::uint8_t bits) {
  if ((bits & mail::notify::kNever) != 0) return "NEVER";
  std::string out;
  for (const auto& [bit, word] :
       {std::pair{mail::notify::kSuccess, "SUCCESS"}, std::pair{mail::notify::kFailure, "FAILURE"},
        std::pair{mail::notify::kDelay, "DELAY"}})
    if ((bits & bit) != 0) out += (out.empty() ? "" : ",") + std::string(word);
  return out;
}

}  // namespace

std::string batch_begin(const mail::Envelope& e, const std::vector<mail::Recipient>& recipients,
                        const BatchOptions& options) {
  std::string out = "EHLO " + options.helo + "\r\nMAIL FROM:<" + e.sender + ">";
  if (!options.plain) {
    if (e.body_type == mail::BodyType::eight_bit_mime || e.body.eight_bit_body || e.body.eight_bit_header)
      out += " BODY=8BITMIME";
    if (e.smtputf8) out += " SMTPUTF8";
    if (e.ret != mail::Ret::unspecified) out += e.ret == mail::Ret::full ? " RET=FULL" : " RET=HDRS";
    if (!e.envid.empty()) out += " ENVID=" + mail::encode_xtext(e.envid);
    if (e.priority != 0) out += " MT-PRIORITY=" + std::to_string(e.priority);
    if (e.release != WallTime()) out += " HOLDUNTIL=" + utc_text(e.release);
  }
  out += "\r\n";
  for (const auto& r : recipients) {
    out += "RCPT TO:<" + r.address + ">";
    if (!options.plain && r.notify != 0) out += " NOTIFY=" + notify_words(r.notify);
    if (!options.plain && !r.orcpt.empty()) out += " ORCPT=" + r.orcpt;
    out += "\r\n";
  }
  return out + "DATA\r\n";
}

void BatchContent::pass(std::vector<Bytes>& pieces) {
  for (const Bytes& piece : pieces) write_(as_text(piece));
  pieces.clear();
}

void BatchContent::feed(std::string_view stored) {
  std::vector<Bytes> pieces;
  form_.feed(stored, pieces);
  pass(pieces);
}

void BatchContent::finish() {
  std::vector<Bytes> pieces;
  form_.finish(pieces);
  pass(pieces);
}

std::string batch_end() { return "QUIT\r\n"; }

}  // namespace pen::tools
