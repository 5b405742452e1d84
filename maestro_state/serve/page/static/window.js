// A long list of which only a window is in the document: what is near the eye, some hundred items at most. What lies
// above and below is two empty boxes as high as their items were, or are guessed to be.

const MOST = 240; // items in the document
const STEP = 80; // items that come and go at once
const NEAR = 1600; // pixels from the window's edge at which it moves
const GUESS = 96; // pixels of an item that was never drawn
const END = 48; // pixels from the end that still count as the end

export class ItemWindow {
  #above = document.createElement("div");
  #below = document.createElement("div");
  #inner = document.createElement("div");
  #first = 0;
  #last = 0;
  #changes = [];
  #isScheduled = false;
  isAtEnd = true;

  // `draw` makes an item's element; `needOlder` is called when the beginning comes near.
  constructor(box, draw, needOlder, onEnd) {
    Object.assign(this, { box, draw, needOlder, onEnd, items: [] });
    this.#above.setAttribute("aria-hidden", "true");
    this.#below.setAttribute("aria-hidden", "true");
    this.#inner.className = "items";
    box.replaceChildren(this.#above, this.#inner, this.#below);
    box.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    new ResizeObserver(() => { if (this.isAtEnd) this.toEnd(); }).observe(this.#inner);
    new ResizeObserver(() => { if (this.isAtEnd) this.toEnd(); }).observe(box);
  }

  get drawn() { return this.items.slice(this.#first, this.#last); }

  append(items) {
    this.change(() => {
      const isShown = this.#last === this.items.length;
      this.items.push(...items);
      if (isShown) this.#show(this.isAtEnd ? Math.max(this.#first, this.items.length - MOST) : this.#first, this.items.length);
      else this.#measure();
    });
  }

  prepend(items) {
    this.change(() => {
      this.items.unshift(...items);
      this.#first += items.length;
      this.#last += items.length;
      this.#show(Math.max(0, this.#first - STEP), this.#last);
    });
  }

  // Draws an item again, if it is in the document.
  redraw(item) {
    if (!item.element) return;
    this.change(() => {
      const old = item.element;
      if (!old?.isConnected) return;
      const hadFocus = old.contains(document.activeElement);
      item.element = this.draw(item);
      old.replaceWith(item.element);
      if (hadFocus) item.element.focus({ preventScroll: true });
    });
  }

  // Changes the document in the next frame, together with all else that changes then; what is looked at stays in place.
  change(call) {
    this.#changes.push(call);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    if (document.hidden) setTimeout(() => this.flush(), 100);
    else requestAnimationFrame(() => this.flush());
  }

  flush() {
    this.#isScheduled = false;
    const changes = this.#changes.splice(0);
    this.#hold(() => changes.forEach((call) => call()));
  }

  // Draws what is around an item and goes there, wherever one was.
  reveal(item) {
    const at = this.items.indexOf(item);
    this.isAtEnd = false;
    this.#show(Math.max(0, at - MOST / 2), Math.min(this.items.length, at + MOST / 2));
    item.element.scrollIntoView({ block: "center" });
    item.element.focus({ preventScroll: true });
    item.element.classList.add("found");
    this.onEnd(false);
  }

  toEnd() {
    if (this.#last < this.items.length) this.#show(Math.max(0, this.items.length - MOST), this.items.length);
    this.box.scrollTop = this.box.scrollHeight;
  }

  #hold(call) {
    if (this.isAtEnd) {
      call();
      this.box.scrollTop = this.box.scrollHeight;
      return;
    }
    const top = this.box.getBoundingClientRect().top;
    const anchor = this.drawn.find((item) => item.element?.getBoundingClientRect().bottom > top);
    const before = anchor?.element.getBoundingClientRect().top;
    call();
    if (anchor?.element?.isConnected) this.box.scrollTop += anchor.element.getBoundingClientRect().top - before;
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    const wasAtEnd = this.isAtEnd;
    this.isAtEnd = scrollHeight - scrollTop - clientHeight < END && this.#last === this.items.length;
    if (wasAtEnd !== this.isAtEnd) this.onEnd(this.isAtEnd);
    const above = this.#above.offsetHeight;
    const end = scrollHeight - this.#below.offsetHeight;
    if (scrollTop + clientHeight < above || scrollTop > end) this.#jump(scrollTop);
    else if (scrollTop - above < NEAR && this.#first > 0) this.#move(-STEP);
    else if (end - scrollTop - clientHeight < NEAR && this.#last < this.items.length) this.#move(STEP);
    if (this.#first === 0 && scrollTop - above < NEAR) this.needOlder();
  }

  #move(by) {
    const first = by < 0 ? Math.max(0, this.#first + by) : Math.max(0, Math.min(this.items.length, this.#last + by) - MOST, this.#first);
    const last = by < 0 ? Math.min(this.#last, first + MOST) : Math.min(this.items.length, this.#last + by);
    this.#hold(() => this.#show(first, last));
  }

  // Somebody dragged the bar far away: the window is built anew where the guessed heights lead.
  #jump(scrollTop) {
    let height = 0;
    let at = 0;
    while (at < this.items.length - 1 && height < scrollTop) height += this.items[at++].height ?? GUESS;
    this.#show(Math.max(0, at - MOST / 2), Math.min(this.items.length, at + MOST / 2));
  }

  #show(first, last) {
    const wanted = this.items.slice(first, last);
    const kept = new Set(wanted);
    const gone = this.drawn.filter((item) => !kept.has(item));
    for (const item of gone) if (item.element) item.height = item.element.offsetHeight; // all measured before any goes
    for (const item of gone) {
      item.element?.remove();
      item.element = null;
    }
    let next = this.#inner.firstChild;
    for (const item of wanted) {
      item.element ??= this.draw(item);
      if (item.element === next) next = next.nextSibling;
      else this.#inner.insertBefore(item.element, next);
    }
    this.#first = first;
    this.#last = last;
    this.#measure();
  }

  #measure() {
    const sum = (items) => items.reduce((height, item) => height + (item.height ?? GUESS), 0);
    this.#above.style.height = `${sum(this.items.slice(0, this.#first))}px`;
    this.#below.style.height = `${sum(this.items.slice(this.#last))}px`;
  }
}
