#pragma once
/// Domains in their two forms: with U-labels ("bücher.example") and with A-labels ("xn--bcher-kva.example").
///
/// Use:     idn::same_domain("BÜCHER.example", "xn--bcher-kva.example")        // true
///          idn::other_forms("jo@bücher.example") == {"jo@xn--bcher-kva.example"}
/// Rule:    both forms are one domain (RFC 5890 2.3.2.1), wherever domains are compared or looked up. What is sent on,
///          logged and kept is the form that came in.
/// Cost:    names that are ASCII and have no "xn--" are looked through once, and nothing else.
/// Pure, but for convert_by_idna2003(); any thread.
/// Source:  RFC 5890, RFC 5891, Unicode Technical Standard 46; Postfix: enable_idna2003_compatibility.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pen::idn {

/// The domain with A-labels, in lower case; nullopt: no name that the DNS could have.
std::optional<std::string> ascii_domain(std::string_view domain);
/// The domain with U-labels, in lower case; nullopt also for an A-label that is not what its U-label would become.
std::optional<std::string> unicode_domain(std::string_view domain);
/// One domain, in whatever form and case. Also for "[192.0.2.1]" and other text, which is compared by equal().
bool same_domain(std::string_view a, std::string_view b);
/// The domain itself, or one below it.
bool within_domain(std::string_view domain, std::string_view parent);
/// One mailbox for a table: local parts by equal(), domains by same_domain(). Either may lack a domain.
bool same_address(std::string_view a, std::string_view b);
/// One text for all forms of a mailbox, for what is counted and remembered of it: the local part folded, the domain
/// with A-labels. The domain may begin with a dot; where there is no domain all is taken for one, as in "example.org"
/// and "*".
std::string address_key(std::string_view address);
/// How else the domain of a key can be written: of "user@domain", "domain", ".domain", "[domain]" and "[domain]:port".
/// At most two; none for most keys.
std::vector<std::string> other_forms(std::string_view key);

/// enable_idna2003_compatibility, for all names of this process from now on.
void convert_by_idna2003(bool yes);

}  // namespace pen::idn
