# Print the targets of a Makefile by what they are for: "target: needs ## GROUP: text". The first group comes in this order.
BEGIN {
    first = split("run test check format lint types dev test-full prove docs-serve", order, " ")
    groups = split("first test measure write release", group, " ")
    split("The ten that matter most|Test more|Measure|Write documents|Build and release", title, "|")
}
match($0, /^[a-z%-]+:.*## [a-z]+: /) {
    text = substr($0, RLENGTH + 1)
    name = kind = substr($0, 1, RLENGTH - 2)
    sub(/:.*/, "", name)
    sub(/.*## /, "", kind)
    line[name] = sprintf("  make %-18s %s\n", name, text)
    if (kind != "first")
        lines[kind] = lines[kind] line[name]
}
END {
    for (i = 1; i <= first; i++)
        lines["first"] = lines["first"] line[order[i]]
    for (i = 1; i <= groups; i++)
        printf "%s%s\n%s", (i > 1 ? "\n" : ""), title[i], lines[group[i]]
}
