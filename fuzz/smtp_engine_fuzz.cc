// The SMTP client's engine against a peer that sends anything: every job ends once, nothing counts as delivered
// without a positive reply after its end-of-data, memory stays bounded. After the reply that permits STARTTLS, the
// line "handshake" stands for a successful handshake, "no handshake" for a failed one, and any other line for clear
// text from the peer or an attacker.
#include <cstdint>
#include <cstdlib>

#include "smtp/testing/engine_harness.h"

using namespace pen;
using namespace pen::smtp;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  Settings settings;
  settings.lmtp = (data[0] & 1) != 0;
  settings.window = 1 + (data[0] >> 1) % 8;
  settings.eager_limit = (data[0] & 0x40) != 0 ? 10 : 100000;
  settings.pipelining = (data[0] & 0x80) == 0;
  settings.starttls = static_cast<StartTls>(data[2] % 4 % 3);
  settings.requiretls = (data[2] & 4) != 0;
  settings.send_xforward = (data[2] & 8) != 0;
  const bool probes = (data[2] & 16) != 0;
  const bool required = settings.starttls == StartTls::required;
  testing::Harness h(settings);
  const int messages = 1 + data[1] % 8;
  for (int i = 0; i < messages; ++i) {
    std::vector<std::string> to;
    for (int r = 0; r <= (data[1] >> 3) % 3; ++r) to.push_back("r" + std::to_string(r) + "@x.example");
    auto& j = h.job("s@x.example", to, ".content " + std::to_string(i) + "\r\n");
    if ((data[1] & 0x80) != 0 && i % 2 == 0) j.job.body_type = mail::BodyType::binary_mime;
    if (probes && i % 2 == 1) j.job.purpose = mail::Purpose::probe;
    if (settings.requiretls) j.job.requiretls = mail::RequireTls::yes;
  }
  std::string_view rest(reinterpret_cast<const char*>(data) + 3, size - 3);
  std::size_t positive = 0, lines = 0;
  while (!rest.empty() && !h.engine.ended()) {
    h.submit_some();
    if (h.submitted == h.jobs.size() && lines % 2 == 1) h.engine.request_close();
    const std::string out = h.output();
    if (!h.engine.encrypted()) {
      const bool mail = out.starts_with("MAIL") || out.find("\nMAIL") != std::string::npos;
      if (mail && required) std::abort();
      if (out.find("REQUIRETLS") != std::string::npos) std::abort();
    }
    const auto end = rest.find('\n');
    auto line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (!line.empty() && line.front() == '2') ++positive;
    ++lines;
    if (h.engine.handshake_due() && line == "handshake") {
      h.engine.tls_started(h.now);
    } else if (h.engine.handshake_due() && line == "no handshake") {
      h.engine.tls_failed(mail::make_status(mail::Action::deferred, "4.7.5", "handshake failure"));
    } else {
      const bool clear_text = h.engine.handshake_due();
      h.engine.on_line(line, h.now);
      if (clear_text && !h.engine.ended()) std::abort();  // none of the clear text may be believed
    }
    h.collect();
  }
  h.finish((size & 1) != 0 ? End::closed : End::timed_out);
  std::size_t delivered = 0;
  for (std::size_t i = 0; i < h.submitted; ++i) {
    const auto& j = *h.jobs[i];
    if (j.outcomes != 1) std::abort();
    if (!j.done) continue;
    if (j.done->results.size() != j.job.recipients.size()) std::abort();
    bool any = false;
    for (const auto& r : j.done->results) {
      if (r.text.empty() || r.dsn.size() < 5) std::abort();
      any = any || (r.action != mail::Action::deferred && r.action != mail::Action::failed);
    }
    delivered += any;
  }
  // Greeting, hello, MAIL, RCPT and end-of-data: a delivery needs five positive replies before it. A probe needs no
  // end-of-data.
  if (delivered > 0 && positive < (probes ? 3U : 4U) + delivered) std::abort();
  if (!h.ended) std::abort();
  return 0;
}
