#pragma once
/// For tests: an SMTP or LMTP server over byte strings, with faults on request and a ledger of the accepted mail.
///
/// Use:     ScriptedPeer peer(options);
///          peer.input(bytes); client.feed(peer.take_output()); if (peer.gone()) …
/// Rules:   it keeps the state of RFC 5321 (nested MAIL is 503, data without recipients 503 or 354 then 554), reads
///          all octets of a BDAT even if it refuses it, and executes commands in order. ledger() has what it
///          accepted.
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pen::smtp::testing {

struct PeerOptions {
  bool pipelining = true, chunking = true, eight_bit_mime = true, dsn = false, smtputf8 = false, binary_mime = false;
  bool enhanced = true, lmtp = false, ehlo = true, starttls = false;
  bool requiretls = false, requiretls_in_clear = false, xforward = false;
  std::string size;         // "SIZE" argument; "-": not offered
  std::string limits = {};  // "LIMITS" arguments; empty: not offered
  bool data_without_recipients_354 = false;
  /// Called before each reply. It returns the reply lines, or "" for the normal reply, or: "drop" (close without a
  /// reply), "421" (say 421 and close), "swallow" (execute, but do not answer), "twice" (answer twice).
  std::function<std::string(std::string_view command)> fault;
};

struct Taken {
  std::string sender;
  std::vector<std::string> recipients;  // those for which it accepted the message
  std::string content;                  // without dot-stuffing
  bool operator==(const Taken&) const = default;
};

class ScriptedPeer {
 public:
  explicit ScriptedPeer(PeerOptions options) : options_(std::move(options)) { reply("greeting", "220 peer ESMTP"); }

  void input(std::string_view bytes) {
    if (gone_) return;
    in_ += bytes;
    while (!gone_ && step()) {
    }
  }
  std::string take_output() { return std::exchange(out_, {}); }
  bool gone() const { return gone_; }
  const std::vector<Taken>& ledger() const { return ledger_; }
  const std::vector<std::string>& commands() const { return commands_; }
  bool quit() const { return quit_; }
  bool encrypted() const { return encrypted_; }
  /// Bytes that the client sent after STARTTLS without waiting for the reply.
  std::size_t sent_ahead_of_tls() const { return in_after_starttls_; }

 private:
  /// Sends the reply. True: it was positive, the command is to be executed.
  bool reply(std::string_view command, std::string_view normal) {
    const std::string fault = options_.fault ? options_.fault(command) : std::string();
    if (fault == "drop") {
      gone_ = true;
      return false;
    }
    if (fault == "421") {
      out_ += "421 4.3.2 going away\r\n";
      gone_ = true;
      return false;
    }
    if (fault == "swallow") return true;
    const std::string line(fault.empty() || fault == "twice" ? normal : std::string_view(fault));
    for (int i = fault == "twice" ? 2 : 1; i > 0; --i) {
      out_ += line;
      out_ += "\r\n";
    }
    return line[0] == '2' || line[0] == '3';
  }
  void reset() {
    mail_ = false;
    recipients_.clear();
    chunk_.clear();
    bdat_started_ = false;
  }
  void end_of_data(std::string content, std::string_view what) {
    Taken taken{sender_, {}, std::move(content)};
    if (options_.lmtp) {
      for (const auto& r : recipients_) {
        if (gone_) break;
        if (reply(std::string(what) + " " + r, "250 2.1.5 " + r + " stored")) taken.recipients.push_back(r);
      }
    } else if (reply(what, "250 2.0.0 Ok: queued")) {
      taken.recipients = recipients_;
    }
    if (!taken.recipients.empty()) ledger_.push_back(std::move(taken));
    reset();
  }
  bool step() {
    if (in_data_) {
      if (in_.starts_with(".\r\n")) {
        in_.erase(0, 3);
      } else {
        const auto end = in_.find("\r\n.\r\n", scanned_);
        if (end == std::string::npos) {
          scanned_ = in_.size() < 4 ? 0 : in_.size() - 4;
          return false;
        }
        scanned_ = 0;
        std::string raw;
        raw.reserve(end + 2);
        for (std::size_t at = 0, next; at < end + 2; at = next) {
          next = in_.find("\r\n", at) + 2;
          raw.append(in_, at + (in_[at] == '.' ? 1 : 0), next - at - (in_[at] == '.' ? 1 : 0));
        }
        in_.erase(0, end + 5);
        data_ = std::move(raw);
      }
      in_data_ = false;
      if (recipients_.empty()) {
        reply("dot", "554 5.5.1 no valid recipients");
        reset();
      } else {
        end_of_data(std::exchange(data_, {}), "dot");
      }
      return true;
    }
    if (bdat_left_ != npos_) {
      if (in_.size() < bdat_left_) return false;
      std::string chunk = in_.substr(0, bdat_left_);
      in_.erase(0, bdat_left_);
      bdat_left_ = npos_;
      if (!mail_ || recipients_.empty()) {
        reply("bdat", "503 5.5.1 no transaction");
        return true;
      }
      end_of_data(std::move(chunk), "bdat");
      return true;
    }
    const auto end = in_.find("\r\n");
    if (end == std::string::npos) return false;
    const std::string line = in_.substr(0, end);
    in_.erase(0, end + 2);
    command(line);
    return true;
  }
  /// The reply to EHLO.
  void offer() {
    greeted_ = true;
    std::vector<std::string> words{"peer"};
    if (options_.pipelining) words.emplace_back("PIPELINING");
    if (options_.chunking) words.emplace_back("CHUNKING");
    if (options_.eight_bit_mime) words.emplace_back("8BITMIME");
    if (options_.binary_mime) words.emplace_back("BINARYMIME");
    if (options_.dsn) words.emplace_back("DSN");
    if (options_.smtputf8) words.emplace_back("SMTPUTF8");
    if (options_.enhanced) words.emplace_back("ENHANCEDSTATUSCODES");
    if (options_.starttls && !encrypted_) words.emplace_back("STARTTLS");
    if (options_.xforward) words.emplace_back("XFORWARD NAME ADDR PROTO HELO IDENT");
    if (encrypted_ ? options_.requiretls : options_.requiretls_in_clear) words.emplace_back("REQUIRETLS");
    if (options_.size != "-") words.push_back("SIZE " + options_.size);
    if (!options_.limits.empty()) words.push_back("LIMITS " + options_.limits);
    std::string all;
    for (std::size_t i = 0; i < words.size(); ++i)
      all += (i ? "\r\n" : "") + std::string(i + 1 < words.size() ? "250-" : "250 ") + words[i];
    reply("ehlo", all);
  }
  void command(const std::string& line) {
    commands_.push_back(line);
    auto path = [&] {
      const auto from = line.find('<') + 1;
      return line.substr(from, line.find('>') - from);
    };
    if (line.starts_with("EHLO ") || line.starts_with("LHLO ")) {
      if (!options_.ehlo) {
        reply("ehlo", "502 5.5.1 what");
        return;
      }
      offer();
    } else if (line.starts_with("HELO ")) {
      greeted_ = true;
      reply("helo", "250 peer");
    } else if (line.starts_with("MAIL FROM:<")) {
      if (encrypted_ && !greeted_) {
        reply("mail early", "503 5.5.1 EHLO again");
        return;
      }
      if (mail_) {
        reply("mail nested", "503 5.5.1 nested MAIL");
        return;
      }
      if (reply("mail", "250 2.1.0 Ok")) {
        mail_ = true;
        sender_ = path();
      }
    } else if (line.starts_with("RCPT TO:<")) {
      if (!mail_) {
        reply("rcpt early", "503 5.5.1 need MAIL");
        return;
      }
      if (reply("rcpt " + path(), "250 2.1.5 Ok")) recipients_.push_back(path());
    } else if (line == "DATA") {
      if (recipients_.empty() && !(options_.data_without_recipients_354 && mail_)) {
        reply("data empty", "503 5.5.1 no recipients");
        return;
      }
      if (reply("data", "354 go ahead")) in_data_ = true;
    } else if (line.starts_with("BDAT ")) {
      bdat_left_ = std::stoul(line.substr(5));
    } else if (line.starts_with("XFORWARD ") && options_.xforward) {
      if (mail_)
        reply("xforward nested", "503 5.5.1 transaction in progress");
      else
        reply("xforward", "250 2.0.0 Ok");
    } else if (line == "RSET") {
      if (reply("rset", "250 2.0.0 Ok")) reset();
    } else if (line == "STARTTLS" && options_.starttls && !encrypted_ && !greeted_) {
      reply("starttls early", "503 5.5.1 EHLO first");
    } else if (line == "STARTTLS" && options_.starttls && !encrypted_) {
      in_after_starttls_ = in_.size();
      if (reply("starttls", "220 2.0.0 go ahead")) {
        encrypted_ = true;
        greeted_ = false;
        reset();
      }
    } else if (line == "QUIT") {
      out_ += "221 2.0.0 Bye\r\n";
      gone_ = quit_ = true;
    } else {
      reply("unknown", "500 5.5.2 what");
    }
  }

  static constexpr std::size_t npos_ = std::string::npos;
  PeerOptions options_;
  std::string in_, out_, sender_, chunk_, data_;
  std::vector<std::string> recipients_;
  std::vector<Taken> ledger_;
  std::vector<std::string> commands_;
  std::size_t bdat_left_ = npos_;
  bool encrypted_ = false, greeted_ = false;
  std::size_t in_after_starttls_ = 0;
  std::size_t scanned_ = 0;  // bytes of DATA content searched for its end, in vain
  bool mail_ = false, in_data_ = false, bdat_started_ = false, gone_ = false, quit_ = false;
};

}  // namespace pen::smtp::testing
