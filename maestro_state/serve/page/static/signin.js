// Exchanges a token for a cookie that no script can read, then shows the page.

export async function signIn(token) {
  const answer = await fetch("/v1/signin", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token }),
  });
  if (answer.ok) location.reload();
  return answer.ok;
}

const code = new URLSearchParams(location.hash.slice(1)).get("signin");
const form = document.getElementById("signin");
if (form) {
  if (code) {
    history.replaceState(null, "", location.pathname);
    signIn(code);
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const isIn = await signIn(document.getElementById("token").value);
    if (!isIn) document.getElementById("line").textContent = "This token does not count.";
  });
}
